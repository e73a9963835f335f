//! Names of git's commits.

use std::ops::RangeInclusive;

/// Digits of a commit: those that git shows at least, to those of SHA-256.
const COMMIT_DIGITS: RangeInclusive<usize> = 7..=64;
/// Digits that tell the commits of a repository apart for people.
const SHORT_DIGITS: usize = 12;

/// Returns true for 7 to 64 hexadecimal digits. So no option of a command is taken for a commit.
#[must_use]
pub fn is_commit(text: &str) -> bool {
    COMMIT_DIGITS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the first 12 digits of a commit, for people.
#[must_use]
pub fn shorten_commit(commit: &str) -> &str {
    commit.get(..SHORT_DIGITS).unwrap_or(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_no_commit_and_a_short_commit_stays() {
        assert!(is_commit("0a1b2c3") && is_commit(&"A".repeat(64)));
        for other in ["", "0a1b2c", "--output=/tmp/x", "HEAD", "0a1b2cg", &"a".repeat(65)] {
            assert!(!is_commit(other), "{other}");
        }
        assert_eq!(shorten_commit("3f2a9c1d0e4b5a69"), "3f2a9c1d0e4b");
        assert_eq!(shorten_commit("0a1b2c3"), "0a1b2c3");
    }
}
