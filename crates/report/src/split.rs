//! Records: one report, or an array of them as the HTTP sink sends it.

use crate::jetsam::event_of_record;
use crate::json::{JsonScanner, Stop, type_name};
use crate::{ReadError, ReadLimits, Text};

/// One thing of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// An object: what [`Report::read`](crate::Report::read) takes.
    Report(&'a [u8]),
    /// A string: a report that the device rendered as text.
    Text(Text<'a>),
    /// Anything else.
    Other {
        /// The bytes of the value.
        bytes: &'a [u8],
        /// The value's JSON type, with its article.
        found: &'static str,
    },
}

/// The most elements of one record. Each costs an output with its headers, so that an array of very
/// short ones would become many times its size.
pub const MOST_ELEMENTS: usize = 1_000;

/// The elements of a record. A record that is no array is its own only element, with all its bytes
/// as they are; it is scanned only when it is read. Of a Jetsam log of two JSON texts the second one is the element. An array is scanned here, and each element gets
/// exactly the bytes of its value.
///
/// # Errors
/// [`ReadError`] where the record is too large, or holds more than [`MOST_ELEMENTS`], or where it is scanned and breaks the grammar; then
/// nothing of it can be separated.
pub fn split<'a>(record: &'a [u8], limits: &ReadLimits) -> Result<Vec<Element<'a>>, ReadError> {
    if let Some(event) = event_of_record(record) {
        return Ok(vec![Element::Report(event)]);
    }
    // How deep a report may be is looked at when it is read.
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
