//! Patterns of files that are not sent.

use std::path::Path;

/// Files that usually hold secrets.
const SECRET_FILES: [&str; 23] = [
    ".env",
    ".env.*",
    "*.env",
    ".git",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".aws",
    ".docker",
    ".gnupg",
    ".kube",
    ".ssh",
    "credentials*.json",
    "*.pem",
    "*.key",
    "*.p8",
    "*.p12",
    "*.pfx",
    "*.keystore",
    "*.mobileprovision",
    "id_*",
    "*secret*",
];

/// Patterns with `*`, which stands for any characters. Letters match in both cases.
pub struct ExcludeList(Vec<String>);

impl ExcludeList {
    /// Returns a list of these patterns and those of files with secrets.
    pub fn new(patterns: &[String]) -> ExcludeList {
        let patterns = patterns.iter().map(String::as_str);
        ExcludeList(SECRET_FILES.into_iter().chain(patterns).map(str::to_lowercase).collect())
    }

    /// Returns true if a pattern matches: one with a slash the whole path below the root, any other one a part of it.
    pub fn matches_path(&self, path: &Path) -> bool {
        let path = path.to_string_lossy().to_lowercase();
        self.0.iter().any(|pattern| match pattern.contains('/') {
            true => matches_text(pattern, &path),
            false => path.split('/').any(|part| matches_text(pattern, part)),
        })
    }
}

/// Returns true if the pattern matches the whole text. The first match of each part is enough, except for the last one.
fn matches_text(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        let Some((_, behind)) = left.split_once(part) else { return false };
        left = behind;
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_excluded(patterns: &[&str], path: &str) -> bool {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        ExcludeList::new(&patterns).matches_path(Path::new(path))
    }

    #[test]
    fn files_with_secrets_are_excluded_by_themselves() {
        for secret in [
            ".env",
            "a/.ENV.production",
            "certs/a.p12",
            ".git/config",
            ".kube/config",
            "id_rsa",
            "a/credentials.json",
        ] {
            assert!(is_excluded(&[], secret), "{secret}");
        }
        for source in ["src/Cart.swift", "environment.c", "keyboard.c", "src/grid_view.m"] {
            assert!(!is_excluded(&[], source), "{source}");
        }
    }

    #[test]
    fn a_pattern_matches_a_part_or_with_a_slash_the_whole_path() {
        assert!(is_excluded(&["Generated"], "a/generated/b.c"));
        assert!(is_excluded(&["vendor/*.c"], "vendor/x/a.c"));
        assert!(!is_excluded(&["vendor/*.c"], "src/vendor/a.c"));
        assert!(is_excluded(&["*/vendor/*"], "src/vendor/a.c"));
        assert!(is_excluded(&["a*b*c"], "axbxbc") && !is_excluded(&["a*b*c"], "axc"));
        assert!(!is_excluded(&["ab*b"], "ab"), "the two parts do not overlap");
    }
}
