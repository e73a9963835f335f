//! Records with documents of any format.

use super::ReportReaders;
use crate::{Element, LenientElement, ReadError, ReadLimits, split_leniently, split_record};

/// Returns true if bytes may be JSON: marks of code blocks such as `{noformat}` begin no object, and a NUL is the other half
/// of a letter in UTF-16.
fn begins_json(start: &[u8]) -> bool {
    match start {
        [b'{', next, ..] => !next.is_ascii_alphabetic() && !matches!(next, 0 | b'&'),
        [b'[', rest @ ..] => !rest.starts_with(b"code") && !rest.starts_with(b"quote"),
        [b'"', ..] | [] | [b'{'] => true,
        _ => false,
    }
}

impl ReportReaders {
    /// Splits a record as [`split_record`] does. A document of a reader's format that is no JSON is the only element.
    ///
    /// # Errors
    /// Returns the errors of [`split_record`].
    pub fn split_record<'a>(
        &self,
        record: &'a [u8],
        limits: &ReadLimits,
    ) -> Result<Vec<Element<'a>>, ReadError> {
        match self.find_document(record, limits)? {
            Some(document) => Ok(vec![document]),
            None => split_record(record, limits),
        }
    }

    /// Splits a record as [`split_leniently`] does. A document of a reader's format that is no JSON is the only element.
    ///
    /// # Errors
    /// Returns the errors of [`split_leniently`].
    pub fn split_record_leniently<'a>(
        &self,
        record: &'a [u8],
        limits: &ReadLimits,
    ) -> Result<Vec<LenientElement<'a>>, ReadError> {
        match self.find_document(record, limits)? {
            Some(document) => Ok(vec![LenientElement::Whole(document)]),
            None => split_leniently(record, limits),
        }
    }

    /// Returns the documents of one report each, for a document that holds several reports.
    #[must_use]
    pub fn split_document(&self, document: &[u8], limits: &ReadLimits) -> Option<Vec<Vec<u8>>> {
        self.0.iter().filter_map(|reader| reader.parts).find_map(|parts| parts(document, limits))
    }

    /// Returns a record that is no JSON, and of a reader's format.
    fn find_document<'a>(
        &self,
        record: &'a [u8],
        limits: &ReadLimits,
    ) -> Result<Option<Element<'a>>, ReadError> {
        let start = record.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(record).trim_ascii_start();
        if begins_json(start) || self.find(record).is_none() {
            return Ok(None);
        }
        if record.len() > limits.max_bytes {
            return Err(ReadError::TooLarge { bytes: record.len(), limit: limits.max_bytes });
        }
        Ok(Some(Element::Report(record)))
    }
}
