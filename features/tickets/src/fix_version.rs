//! Names of versions in trackers, such as `iOS 2.4.2` and `Shop 2.4.2 (812)`.

/// Returns the version in a name: the first word of digits and dots, also after a `v`. Returns None if there is none.
pub fn read_fix_version(name: &str) -> Option<&str> {
    name.split([' ', '/', '_'])
        .filter_map(|word| {
            let word = word.strip_prefix(['v', 'V']).unwrap_or(word);
            let is_version = word.contains('.')
                && word.len() <= 50
                && word.starts_with(|c: char| c.is_ascii_digit())
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-');
            is_version.then_some(word)
        })
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_its_name() {
        for name in ["2.4.2", "iOS 2.4.2", "Shop 2.4.2 (812)", "v2.4.2", "release/2.4.2"] {
            assert_eq!(read_fix_version(name), Some("2.4.2"), "{name}");
        }
        assert_eq!(read_fix_version("2.4.0-beta.1"), Some("2.4.0-beta.1"));
        for name in ["", "Backlog", "Sprint 12", "next"] {
            assert_eq!(read_fix_version(name), None, "{name}");
        }
    }
}
