//! Records: one report, or an array of them as the HTTP sink sends it.

use crate::jetsam::event_of_record;
use crate::json::{JsonScanner, Stop, type_name};
use crate::{ReadError, ReadLimits, Text};

/// One element of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// An object, the input of [`Report::read`](crate::Report::read).
    Report(&'a [u8]),
    /// A string: a report that the device already rendered as text.
    Text(Text<'a>),
    /// Anything else.
    Other {
        /// The bytes of the value.
        bytes: &'a [u8],
        /// The value's JSON type, with its article.
        found: &'static str,
    },
}

/// The maximum number of elements in one record. Each becomes an output with its own headers, so an array of
/// very short elements would grow to many times its size.
pub const MOST_ELEMENTS: usize = 1_000;

/// Splits a record into its elements. A record that is not an array is its only element, with all its bytes,
/// and is not scanned here. For a Jetsam log of two JSON texts, the second text is the element. An array is
/// scanned here, and each element gets exactly the bytes of its value.
///
/// # Errors
/// Returns [`ReadError`] if the record is too large, has more than [`MOST_ELEMENTS`], or is scanned and is not valid
/// JSON. In the last case no element can be separated.
pub fn split_record<'a>(record: &'a [u8], limits: &ReadLimits) -> Result<Vec<Element<'a>>, ReadError> {
    if let Some(event) = event_of_record(record) {
        return Ok(vec![Element::Report(event)]);
    }
    // The depth of a report is checked when the report is read.
    let limits = ReadLimits { max_depth: usize::MAX, ..*limits };
    let mut s = JsonScanner::new(record, &limits)?;
    s.skip_preamble()?;
    let mut elements = Vec::new();
    match s.peek_byte() {
        Some(b'{') => return Ok(vec![Element::Report(record)]),
        Some(b'[') => s.read_elements(|s, _| {
            if elements.len() == MOST_ELEMENTS {
                return Err(ReadError::TooMany { limit: MOST_ELEMENTS }.into());
            }
            elements.push(read_element(s, record)?);
            Ok(())
        })?,
        _ => elements.push(read_element(&mut s, record)?),
    }
    s.expect_end()?;
    Ok(elements)
}

/// One element of a record that is read as far as possible.
#[derive(Debug)]
pub enum LenientElement<'a> {
    /// An element that is valid JSON.
    Whole(Element<'a>),
    /// Bytes between two elements that are not valid JSON.
    Broken {
        /// The bytes.
        bytes: &'a [u8],
        /// The first error in them; its offset counts from their beginning.
        error: ReadError,
    },
}

/// Splits a record as [`split`] does, and separates broken elements of an array from the others. Brackets and strings
/// decide where an element ends, so an element that lacks a closing bracket takes all that follow it.
///
/// # Errors
/// Returns [`ReadError`] if the record is too large or has more than [`MOST_ELEMENTS`].
pub fn split_leniently<'a>(
    record: &'a [u8],
    limits: &ReadLimits,
) -> Result<Vec<LenientElement<'a>>, ReadError> {
    match split_record(record, limits) {
        Ok(elements) => Ok(elements.into_iter().map(LenientElement::Whole).collect()),
        Err(error @ (ReadError::TooLarge { .. } | ReadError::TooMany { .. })) => Err(error),
        Err(error) => match record.trim_ascii_start().strip_prefix(b"[") {
            Some(array) => read_pieces(&cut_array(array), limits),
            None => Ok(vec![LenientElement::Broken { bytes: record, error }]),
        },
    }
}

fn read_pieces<'a>(pieces: &[&'a [u8]], limits: &ReadLimits) -> Result<Vec<LenientElement<'a>>, ReadError> {
    if pieces.len() > MOST_ELEMENTS {
        return Err(ReadError::TooMany { limit: MOST_ELEMENTS });
    }
    let limits = ReadLimits { max_depth: usize::MAX, ..*limits };
    let read = |bytes: &&'a [u8]| match read_piece(bytes, &limits) {
        Ok(element) => LenientElement::Whole(element),
        Err(error) => LenientElement::Broken { bytes, error },
    };
    Ok(pieces.iter().map(read).collect())
}

fn read_piece<'a>(bytes: &'a [u8], limits: &ReadLimits) -> Result<Element<'a>, ReadError> {
    let mut s = JsonScanner::new(bytes, limits)?;
    s.skip_preamble()?;
    let element = read_element(&mut s, bytes)?;
    s.expect_end()?;
    Ok(element)
}

/// Returns the bytes between the commas of an array without its first bracket, and the text behind the array if there
/// is one. Stops after one piece more than [`MOST_ELEMENTS`].
fn cut_array(array: &[u8]) -> Vec<&[u8]> {
    let (mut pieces, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, byte) in array.iter().enumerate() {
        if is_text {
            is_text = *byte != b'"' || is_escaped;
            is_escaped = *byte == b'\\' && !is_escaped;
            continue;
        }
        let ends = match byte {
            b'"' => {
                is_text = true;
                false
            }
            b'{' | b'[' => {
                depth += 1;
                false
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                false
            }
            b',' => depth == 0,
            b']' => true,
            _ => false,
        };
        if !ends {
            continue;
        }
        pieces.push(array[start..at].trim_ascii());
        start = at + 1;
        if *byte == b']' || pieces.len() > MOST_ELEMENTS {
            break;
        }
    }
    // NULs and white space may follow an array, and also an array without its last bracket.
    let rest = array[start..].trim_ascii();
    if rest.iter().any(|byte| *byte != 0) {
        pieces.push(rest);
    }
    pieces
}

fn read_element<'a>(s: &mut JsonScanner<'a>, record: &'a [u8]) -> Result<Element<'a>, Stop> {
    let (start, first) = (s.pos(), s.peek_byte());
    if first == Some(b'"') {
        return Ok(Element::Text(Text(s.read_string()?.0)));
    }
    s.skip_value()?;
    let bytes = &record[start..s.pos()];
    Ok(match first {
        Some(b'{') => Element::Report(bytes),
        _ => Element::Other { bytes, found: type_name(first) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_element_leaves_the_others_of_its_array_whole() {
        let split = |text: &str| -> Vec<Result<String, &'static str>> {
            let elements = split_leniently(text.as_bytes(), &ReadLimits::default()).unwrap();
            let own = |bytes: &[u8]| Ok(String::from_utf8(bytes.to_vec()).unwrap());
            let read = |element: LenientElement<'_>| match element {
                LenientElement::Whole(Element::Report(bytes) | Element::Other { bytes, .. }) => own(bytes),
                LenientElement::Whole(Element::Text(text)) => own(text.raw()),
                LenientElement::Broken { error, .. } => Err(error.reason()),
            };
            elements.into_iter().map(read).collect()
        };
        let (a, b) = (r#"{"a":1}"#, r#"{"b":"],}\\\""}"#);
        let whole = |text: &str| Ok(text.to_owned());
        assert_eq!(split(&format!("[{a},{b}]")), [whole(a), whole(b)]);
        assert_eq!(split(&format!("[{a}, {{\"x\": }}, {b}]")), [whole(a), Err("not_json"), whole(b)]);
        assert_eq!(split(&format!("[{a}, {{\"x\":], {b}]")), [whole(a), Err("not_json"), whole(b)]);
        assert_eq!(split(&format!("[{a},\"t\",,7]")), [whole(a), whole("t"), Err("truncated"), whole("7")]);
        assert_eq!(split(&format!("[{a},{{\"x\":{{\"y\"")), [whole(a), Err("truncated")]);
        assert_eq!(split(&format!("[{a},{a}\0\0")), [whole(a), whole(a)]);
        assert_eq!(split(&format!("[{a}] more")), [whole(a), Err("not_json")]);
        assert_eq!(split("<html>"), [Err("not_json")]);
        let many = format!("[{}x", "1,".repeat(MOST_ELEMENTS + 5));
        let refused = split_leniently(many.as_bytes(), &ReadLimits::default());
        assert_eq!(refused.unwrap_err().reason(), "too_many");
    }
}
