//! Filters of lists (RFC 7644, 3.4.2.2), as far as identity providers send them: comparisons with `eq`, joined by `and`.

use super::failure::ScimFailure;

/// The most bytes of a filter.
const FILTER_BYTES_LIMIT: usize = 2_048;
/// The most comparisons of one filter.
const COMPARISONS_LIMIT: usize = 5;

/// A comparison: the attribute in lower case, and the value that it must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub attribute: String,
    pub value: String,
}

/// Reads the comparisons of a filter, all of which must hold.
///
/// # Errors
/// `invalidFilter` for anything else.
pub fn parse_filter(text: &str) -> Result<Vec<Comparison>, ScimFailure> {
    let refuse = || {
        let shown: String = text.chars().take(200).collect();
        ScimFailure::filter(format!(
            "{shown:?}: comparisons such as userName eq \"a@example.com\" are expected, joined by and"
        ))
    };
    if text.len() > FILTER_BYTES_LIMIT {
        return Err(ScimFailure::filter(format!("a filter has at most {FILTER_BYTES_LIMIT} bytes")));
    }
    let mut comparisons = Vec::new();
    let mut rest = text.trim();
    loop {
        let (comparison, after) = parse_comparison(rest).ok_or_else(refuse)?;
        comparisons.push(comparison);
        if after.is_empty() {
            return Ok(comparisons);
        }
        let (word, after) = after.split_once(char::is_whitespace).ok_or_else(refuse)?;
        if !word.eq_ignore_ascii_case("and") || comparisons.len() >= COMPARISONS_LIMIT {
            return Err(refuse());
        }
        rest = after.trim_start();
    }
}

/// Reads one comparison. Returns it with what follows.
pub fn parse_comparison(text: &str) -> Option<(Comparison, &str)> {
    let (attribute, rest) = text.split_once(char::is_whitespace)?;
    let (operator, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    if !operator.eq_ignore_ascii_case("eq") {
        return None;
    }
    let (value, rest) = split_value(rest.trim_start())?;
    Some((Comparison { attribute: attribute.to_lowercase(), value }, rest.trim_start()))
}

/// Splits a JSON text, or a bare word such as `true`, from what follows.
fn split_value(text: &str) -> Option<(String, &str)> {
    if !text.starts_with('"') {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        return (!word.is_empty()).then(|| (word.to_owned(), rest));
    }
    let mut texts = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = texts.next()?.ok()?;
    Some((value, text.get(texts.byte_offset()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Vec<(String, String)>> {
        let read = parse_filter(text).ok()?;
        Some(read.into_iter().map(|comparison| (comparison.attribute, comparison.value)).collect())
    }

    #[test]
    fn filters_of_okta_and_entra_are_read_and_others_are_refused() {
        let one = |attribute: &str, value: &str| Some(vec![(attribute.to_owned(), value.to_owned())]);
        assert_eq!(parse("userName eq \"a@example.com\""), one("username", "a@example.com"));
        assert_eq!(parse("externalId EQ \"00u1\""), one("externalid", "00u1"));
        assert_eq!(parse("displayName eq \"a \\\"b\\\" and c\""), one("displayname", "a \"b\" and c"));
        assert_eq!(
            parse("emails[type eq \"work\"].value eq \"a@example.com\""),
            None,
            "matched by no provider that follows docs/people.md"
        );
        let both = parse("userName eq \"a\" and active eq true").unwrap();
        assert_eq!(both[1], ("active".to_owned(), "true".to_owned()));
        for wrong in
            ["", "userName", "userName eq", "userName co \"a\"", "userName eq \"a", "a eq b or c eq d"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse(&"a eq b and ".repeat(9)), None);
        assert_eq!(parse(&format!("userName eq \"{}\"", "a".repeat(3_000))), None);
    }
}
