//! Compares two versions of any numbering scheme.

use std::cmp::Ordering;

/// Returns true if a version comes after another one.
///
/// Numbers compare as numbers (`2.10` after `2.9`), and an absent part counts as zero (`2.1` is `2.1.0`). A
/// word comes before a number, so that `2.0-beta` is before `2.0`. A build in parentheses or after a plus
/// decides only if all else is equal and both versions have one: `1.0 (12)` is after `1.0 (9)`, and neither
/// is after `1.0`.
#[must_use]
pub fn is_newer(version: &str, than: &str) -> bool {
    let ((version, build), (other, other_build)) = (split_build(version), split_build(than));
    match compare_tokens(version, other) {
        Ordering::Equal => {
            build.zip(other_build).is_some_and(|(a, b)| compare_tokens(a, b) == Ordering::Greater)
        }
        order => order == Ordering::Greater,
    }
}

/// Orders all versions so that a newer one comes after an older one. Different spellings of the same version
/// are ordered by whether they have a build, and then as text.
#[must_use]
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    let ((version, build), (other, other_build)) = (split_build(a), split_build(b));
    let builds = || match (build, other_build) {
        (Some(one), Some(two)) => compare_tokens(one, two),
        (one, two) => one.is_some().cmp(&two.is_some()),
    };
    compare_tokens(version, other).then_with(builds).then_with(|| a.cmp(b))
}

/// Splits the version and its build.
fn split_build(version: &str) -> (&str, Option<&str>) {
    let version = version.trim();
    let bare = version.strip_prefix(['v', 'V']).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let version = bare.unwrap_or(version);
    version.split_once(['(', '+']).map_or((version, None), |(version, build)| (version, Some(build)))
}

fn compare_tokens(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (Tokens(a), Tokens(b));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (a, b) => a.unwrap_or(ZERO).cmp(&b.unwrap_or(ZERO)),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// A part of a version. Words come before numbers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    Word(String),
    /// The number of its digits, and these, without zeros at the front: numbers of any length compare right.
    Number(usize, String),
}

const ZERO: Token = Token::Number(0, String::new());

/// The numbers and words of a version; all else separates them.
struct Tokens<'v>(&'v str);

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let rest = self.0.trim_start_matches(|c: char| !c.is_alphanumeric());
        let is_number = rest.chars().next()?.is_ascii_digit();
        let same = |c: char| c.is_alphanumeric() && c.is_ascii_digit() == is_number;
        let end = rest.find(|c| !same(c)).unwrap_or(rest.len());
        let (token, rest) = rest.split_at_checked(end)?;
        self.0 = rest;
        if !is_number {
            return Some(Token::Word(token.to_lowercase()));
        }
        let digits = token.trim_start_matches('0');
        Some(Token::Number(digits.len(), digits.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_their_natural_order() {
        for (newer, older) in [
            ("2.10.0", "2.9"),
            ("2.0", "2.0-beta"),
            ("2.0.0-beta.10", "2.0.0-beta.2"),
            ("2.0.0-rc.1", "2.0.0-BETA.2"),
            ("2.0b2", "2.0b1"),
            ("1.0.1", "1.0 (12)"),
            ("1.0 (12)", "1.0 (9)"),
            ("1.0+12", "1.0+9"),
            ("v3", "2.9"),
            ("2026.11.20", "2026.2.3"),
            ("1.99999999999999999999999999999", "1.9999999999999999999999999999"),
            ("0.0.1", ""),
        ] {
            assert!(is_newer(newer, older), "{newer} is after {older}");
            assert!(!is_newer(older, newer), "{older} is not after {newer}");
        }
    }

    #[test]
    fn the_order_is_one_whatever_it_begins_with() {
        let sorted = ["", "0.9", "1.0.0", "1.0 (2)", "1.0.0 (9)", "1.0 (12)", "1.0.1-beta", "1.0.1"];
        for (at, one) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(compare_versions(one, other), at.cmp(&other_at), "{one} and {other}");
                assert!(!is_newer(one, other) || at > other_at, "{one} and {other}");
            }
        }
    }

    #[test]
    fn what_differs_in_nothing_is_not_newer() {
        for (one, other) in [
            ("2.10.0", "2.10"),
            ("2.010", "2.10"),
            ("1.0 (12)", "1.0"),
            ("1.0 (12)", "1.0(12)"),
            ("v1.0", "1.0"),
            ("1.0-Beta", "1.0 beta"),
            ("", ""),
            ("", "0"),
        ] {
            assert!(!is_newer(one, other) && !is_newer(other, one), "{one} and {other}");
        }
    }
}
