//! Headers by which a client asks for a part of a file, or only for a changed one (RFC 9110 §13 and §14).

use http::{HeaderMap, header};
use std::ops::Range;

/// The bytes of a file that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedBytes {
    Whole,
    /// A range that is not empty and ends inside the file.
    Part(Range<u64>),
}

impl AskedBytes {
    /// Returns the range in a file of `size` bytes.
    pub fn to_range(&self, size: u64) -> Range<u64> {
        match self {
            AskedBytes::Whole => 0..size,
            AskedBytes::Part(range) => range.clone(),
        }
    }
}

/// Returns true if the client has the file with this tag already.
pub fn is_unchanged(headers: &HeaderMap, etag: &str) -> bool {
    let tags = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    tags.is_some_and(|tags| {
        tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
    })
}

/// Returns the bytes that the headers ask for. Several ranges, and a range that cannot be read or lies outside, are answered
/// with the whole file.
pub fn asked_bytes(headers: &HeaderMap, etag: &str, size: u64) -> AskedBytes {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::IF_RANGE).is_some_and(|tag| tag != etag) {
        return AskedBytes::Whole;
    }
    let range = text(header::RANGE).and_then(|range| parse_range(range, size));
    range.map_or(AskedBytes::Whole, AskedBytes::Part)
}

fn parse_range(text: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok())?;
    let range = match (first, last) {
        ("", last) => size.saturating_sub(number(last)?)..size,
        (first, "") => number(first)?..size,
        (first, last) => number(first)?..number(last)?.saturating_add(1).min(size),
    };
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[(&'static str, &'static str)]) -> HeaderMap {
        let value = |text: &'static str| http::HeaderValue::from_static(text);
        values.iter().map(|(name, text)| (name.parse().unwrap(), value(text))).collect()
    }

    #[test]
    fn one_range_inside_the_file_is_a_part() {
        let asked = |range: &'static str| asked_bytes(&headers(&[("range", range)]), "\"a\"", 100);
        assert_eq!(asked("bytes=0-9"), AskedBytes::Part(0..10));
        assert_eq!(asked("bytes=90-"), AskedBytes::Part(90..100));
        assert_eq!(asked("bytes=-10"), AskedBytes::Part(90..100));
        assert_eq!(asked("bytes=-1000"), AskedBytes::Part(0..100));
        assert_eq!(asked("bytes=90-1000"), AskedBytes::Part(90..100));
        for other in [
            "bytes=100-",
            "bytes=9-8",
            "bytes=-0",
            "bytes=0-1,3-4",
            "bytes=a-",
            "lines=0-9",
            "bytes=+1-2",
            "",
        ] {
            assert_eq!(asked(other), AskedBytes::Whole, "{other}");
        }
    }

    #[test]
    fn a_range_of_another_version_is_the_whole_file() {
        let asked = |tag| asked_bytes(&headers(&[("range", "bytes=0-9"), ("if-range", tag)]), "\"a\"", 100);
        assert_eq!(asked("\"a\""), AskedBytes::Part(0..10));
        assert_eq!(asked("\"b\""), AskedBytes::Whole);
    }

    #[test]
    fn a_tag_that_the_client_has_is_unchanged() {
        let unchanged = |tags| is_unchanged(&headers(&[("if-none-match", tags)]), "\"a\"");
        assert!(unchanged("\"a\"") && unchanged("W/\"a\"") && unchanged("\"b\", \"a\"") && unchanged("*"));
        assert!(!unchanged("\"b\"") && !is_unchanged(&HeaderMap::new(), "\"a\""));
    }
}
