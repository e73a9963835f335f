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
pub fn split<'a>(record: &'a [u8], limits: &ReadLimits) -> Result<Vec<Element<'a>>, ReadError> {
    if let Some(event) = event_of_record(record) {
        return Ok(vec![Element::Report(event)]);
    }
    // The depth of a report is checked when the report is read.
    let limits = ReadLimits { max_depth: usize::MAX, ..*limits };
    let mut s = JsonScanner::new(record, &limits)?;
    s.begin()?;
    let mut elements = Vec::new();
    match s.byte() {
        Some(b'{') => return Ok(vec![Element::Report(record)]),
        Some(b'[') => s.elements(|s, _| {
            if elements.len() == MOST_ELEMENTS {
                return Err(ReadError::TooMany { limit: MOST_ELEMENTS }.into());
            }
            elements.push(element(s, record)?);
            Ok(())
        })?,
        _ => elements.push(element(&mut s, record)?),
    }
    s.end()?;
    Ok(elements)
}

fn element<'a>(s: &mut JsonScanner<'a>, record: &'a [u8]) -> Result<Element<'a>, Stop> {
    let (start, first) = (s.pos(), s.byte());
    if first == Some(b'"') {
        return Ok(Element::Text(Text(s.string()?.0)));
    }
    s.skip()?;
    let bytes = &record[start..s.pos()];
    Ok(match first {
        Some(b'{') => Element::Report(bytes),
        _ => Element::Other { bytes, found: type_name(first) },
    })
}
