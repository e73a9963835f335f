//! A document of any format, with its report.

use super::{ReportReaders, TranslatedReport};
use crate::{JsonValue, ReadError, ReadLimits};
use std::borrow::Cow;

/// A document and its report: KSCrash's JSON is its own report, and a document of another format has a translated one.
#[derive(Clone, Debug)]
pub struct ReportDocument<'b> {
    document: &'b [u8],
    translated: Option<TranslatedReport>,
}

impl ReportReaders {
    /// Opens a document of any format.
    ///
    /// # Errors
    /// Returns [`ReadError`] if a reader recognises the document and cannot read it.
    pub fn open<'b>(&self, document: &'b [u8], limits: &ReadLimits) -> Result<ReportDocument<'b>, ReadError> {
        Ok(ReportDocument { document, translated: self.translate(document, limits)? })
    }
}

impl ReportDocument<'_> {
    /// Returns the report in KSCrash's form.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        self.translated.as_ref().map_or(self.document, |translated| &translated.json)
    }

    /// Returns true if the document is of another format than KSCrash's JSON.
    #[must_use]
    pub fn is_translated(&self) -> bool {
        self.translated.is_some()
    }

    /// Returns true if the enriched document is one JSON text.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.translated.as_ref().is_none_or(|translated| translated.text.is_some()) || is_json(self.document)
    }

    /// Returns the number of bytes by which the enriched document exceeds its enriched report.
    #[must_use]
    pub fn excess_bytes(&self) -> usize {
        self.translated.as_ref().map_or(0, |translated| translated.excess_bytes(self.document))
    }

    /// Returns the document with the answers of an enriched report.
    ///
    /// # Errors
    /// Returns [`ReadError`] if `enriched` is not a report.
    pub fn write(&self, enriched: Vec<u8>) -> Result<Vec<u8>, ReadError> {
        match &self.translated {
            Some(translated) => translated.write(self.document, &enriched),
            None => Ok(enriched),
        }
    }

    /// Returns the document without our members, if it is of another format than KSCrash's JSON.
    #[must_use]
    pub fn stripped(&self) -> Option<Cow<'_, [u8]>> {
        Some(self.translated.as_ref()?.stripped(self.document))
    }
}

/// Returns true if a document is one JSON text.
#[must_use]
pub fn is_json(document: &[u8]) -> bool {
    let limits = ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() };
    let end = JsonValue::read(document, 0, &limits).map_or(0, |(_, end)| end);
    end > 0 && document.get(end..).unwrap_or_default().trim_ascii().is_empty()
}
