//! The apps that a key is for.

/// The most bytes of a bundle identifier.
pub(super) const MAX_APP_BYTES: usize = 255;
/// The most apps of a key.
const MAX_APPS: usize = 20;

/// Returns true if an app of a key covers an app: it is the same bundle identifier, or `prefix.*` for all below it, such as
/// extensions.
#[must_use]
pub fn covers_app(pattern: &str, app: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => app.len() > prefix.len() && app.starts_with(prefix),
        None => app == pattern,
    }
}

/// Checks the patterns of a key.
pub(super) fn check_patterns(apps: &[String]) -> Result<(), String> {
    if apps.is_empty() || apps.len() > MAX_APPS {
        return Err(format!("apps: 1 to {MAX_APPS} bundle identifiers"));
    }
    let wrong = apps.iter().enumerate().find_map(|(index, app)| Some((index, find_problem(app)?)));
    wrong.map_or(Ok(()), |(index, problem)| Err(format!("apps.{index}: {problem}")))
}

/// Returns the reason why this is no pattern, if it is none.
fn find_problem(pattern: &str) -> Option<&'static str> {
    let exact = pattern.strip_suffix(".*");
    let name = exact.unwrap_or(pattern);
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if pattern.len() > MAX_APP_BYTES {
        Some("at most 255 bytes")
    } else if !name.split('.').all(is_name) {
        Some("a bundle identifier such as com.example.shop, or com.example.shop.* for all below it")
    } else if exact.is_some() && !name.contains('.') {
        Some("a pattern needs at least two parts before .*")
    } else {
        None
    }
}

/// Returns true for a text on one line of at most this many bytes.
pub(super) fn is_text(text: &str, most_bytes: usize) -> bool {
    !text.is_empty() && text.len() <= most_bytes && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_apps_below_its_prefix_only() {
        assert!(covers_app("com.example.shop", "com.example.shop"));
        assert!(!covers_app("com.example.shop", "com.example.shop.watch"));
        assert!(covers_app("com.example.shop.*", "com.example.shop.watch"));
        assert!(!covers_app("com.example.shop.*", "com.example.shop"));
        assert!(!covers_app("com.example.shop.*", "com.example.shop."));
        assert!(!covers_app("com.example.shop.*", "com.example.shopping.watch"));
        for (pattern, is_right) in [
            ("com.example.shop", true),
            ("shop", true),
            ("com.example.*", true),
            ("com.*", false),
            ("*", false),
            ("com.*.shop", false),
            ("com..shop", false),
            ("com.example shop", false),
            ("", false),
        ] {
            assert_eq!(find_problem(pattern).is_none(), is_right, "{pattern}");
        }
    }
}
