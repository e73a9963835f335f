//! Readers of other formats: they translate a document into a report in KSCrash's form.
//!
//! Everything behind a reader works with the translated report. The answers in it go back to their places in the
//! document, so that an enriched document is the document with our members inserted.

pub mod file_names;
mod lines;
mod opened;
mod records;
mod text_document;
mod translated;

use crate::{ReadError, ReadLimits};
pub use opened::{ReportDocument, is_json};
use std::borrow::Cow;
use std::sync::Arc;
pub use text_document::DocumentText;
use text_document::{WrappedText, wrapped_head};
pub use translated::TranslatedReport;

/// A format of reports other than KSCrash's JSON.
#[derive(Clone, Copy, Debug)]
pub struct ReportReader {
    /// The name of the format, such as `ips`.
    pub name: &'static str,
    /// Returns true if a document is of this format, by its first bytes. It is called for every report, so it returns
    /// false for KSCrash's JSON after its first key.
    pub recognizes: fn(&[u8]) -> bool,
    /// Translates a document, which may already be enriched, within the limits of a report.
    pub translate: fn(&[u8], &ReadLimits) -> Result<TranslatedReport, ReadError>,
    /// Returns the documents of one report each, for a document that holds several reports, and `None` for any other
    /// document. `None` if a document of this format holds one report.
    pub parts: Option<SplitDocument>,
}

/// Splits a document that holds several reports.
pub type SplitDocument = fn(&[u8], &ReadLimits) -> Option<Vec<Vec<u8>>>;

/// The readers of a process, in the order in which they are tried. Without readers, every document is read as KSCrash's
/// JSON.
#[derive(Clone, Debug, Default)]
pub struct ReportReaders(Arc<[ReportReader]>);

impl ReportReaders {
    /// Creates the list.
    #[must_use]
    pub fn new(readers: impl IntoIterator<Item = ReportReader>) -> ReportReaders {
        ReportReaders(readers.into_iter().collect())
    }

    /// Returns the reader of a document, or `None` if no reader recognises it.
    #[must_use]
    pub fn find(&self, document: &[u8]) -> Option<&ReportReader> {
        let wrapped = wrapped_head(document);
        let document = wrapped.as_deref().unwrap_or(document);
        self.0.iter().find(|reader| (reader.recognizes)(document))
    }

    /// Translates a document of a reader's format. Returns `None` for any other document.
    ///
    /// # Errors
    /// Returns [`ReadError`] if a reader recognises the document and cannot read it.
    pub fn translate(
        &self,
        document: &[u8],
        limits: &ReadLimits,
    ) -> Result<Option<TranslatedReport>, ReadError> {
        let Some(reader) = self.find(document) else { return Ok(None) };
        if document.len() > limits.max_bytes {
            return Err(ReadError::TooLarge { bytes: document.len(), limit: limits.max_bytes });
        }
        if wrapped_head(document).is_none() {
            return (reader.translate)(document, limits).map(Some);
        }
        let wrapped = WrappedText::read_document(document, limits)?;
        let translated = (reader.translate)(&wrapped.text, limits)?;
        wrapped.insert_answers(translated).map(Some)
    }

    /// Returns the report of a document in KSCrash's form, for a document that was read before it was symbolicated. Its
    /// size is not limited.
    ///
    /// # Errors
    /// Returns the errors of [`ReportReaders::translate`].
    pub fn stored_report<'d>(&self, document: &'d [u8]) -> Result<Cow<'d, [u8]>, ReadError> {
        let limits = ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() };
        let translated = self.translate(document, &limits)?;
        Ok(translated.map_or(Cow::Borrowed(document), |translated| Cow::Owned(translated.json)))
    }
}
