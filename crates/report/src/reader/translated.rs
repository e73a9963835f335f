//! A document's report in KSCrash's form, and the way back.

use super::text_document::{DocumentText, member_value};
use crate::json::MemberPlace;
use crate::spans::remove_spans;
use crate::{Backtrace, FrameSlot, ReadError, Report, splice};
use std::borrow::Cow;
use std::ops::Range;

/// The report of a document of another format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranslatedReport {
    /// The report in KSCrash's form. If the document is enriched, so is this.
    pub json: Vec<u8>,
    /// The place in the document of each frame object of `json`, in the order of `json`. `None` for a frame that is no
    /// object of the document: its answer is not written back.
    pub frames: Vec<Option<MemberPlace>>,
    /// The place of the report's own member in the document.
    pub report: MemberPlace,
    /// The document's text if it is no JSON. Its answers are beside it, and the places above are not used.
    pub text: Option<DocumentText>,
}

/// An insertion into a document.
struct Insertion<'t> {
    place: &'t MemberPlace,
    /// The bytes of our member's value.
    value: &'t [u8],
}

impl TranslatedReport {
    /// Returns the document with the answers of an enriched report, which was made from this one. Every other byte of
    /// the document is unchanged. Answers of an earlier enrichment are replaced.
    ///
    /// # Errors
    /// Returns [`ReadError`] if `enriched` is not a report.
    pub fn write(&self, document: &[u8], enriched: &[u8]) -> Result<Vec<u8>, ReadError> {
        let report = Report::read_stored(enriched)?;
        if let Some(text) = &self.text {
            return Ok(text.write_answered(document, &report));
        }
        let slots = report.backtraces.iter().flat_map(Backtrace::frame_slots);
        let answers = slots.map(|slot| match slot {
            FrameSlot::Frame(frame) => frame.own_member.clone(),
            FrameSlot::Blank(blank) => blank.own_member(),
        });
        let mut insertions: Vec<Insertion<'_>> = self
            .frames
            .iter()
            .zip(answers)
            .filter_map(|(place, own)| insertion(place.as_ref()?, enriched, own))
            .chain(insertion(&self.report, enriched, report.own_member.clone()))
            .collect();
        insertions.sort_by_key(|insertion| insertion.place.insert_at);
        let added: usize = insertions.iter().map(|insertion| insertion.value.len() + 20).sum();
        let mut out = Vec::with_capacity(document.len() + added);
        let mut copied = 0;
        for Insertion { place, value } in insertions {
            let own = place.own_member.clone().unwrap_or(place.insert_at..place.insert_at);
            out.extend_from_slice(document.get(copied..own.start).unwrap_or_default());
            out.extend_from_slice(document.get(own.end..place.insert_at).unwrap_or_default());
            out.extend_from_slice(splice::member_key(place.has_members));
            out.extend_from_slice(value);
            copied = place.insert_at;
        }
        out.extend_from_slice(document.get(copied..).unwrap_or_default());
        Ok(out)
    }

    /// Returns the document without our members: the document itself if there are none.
    #[must_use]
    pub fn stripped<'d>(&self, document: &'d [u8]) -> Cow<'d, [u8]> {
        if let Some(text) = self.text.as_ref().and_then(|text| text.wrapped.as_ref()) {
            return Cow::Owned(text.clone());
        }
        let places = self.frames.iter().flatten().chain([&self.report]);
        let mut own: Vec<Range<usize>> = places.filter_map(|place| place.own_member.clone()).collect();
        if own.is_empty() {
            return Cow::Borrowed(document);
        }
        own.sort_by_key(|range| range.start);
        Cow::Owned(remove_spans(document, own))
    }

    /// Returns the number of bytes by which the document exceeds its report.
    #[must_use]
    pub fn excess_bytes(&self, document: &[u8]) -> usize {
        if let Some(text) = &self.text {
            return text.excess_bytes(document);
        }
        document.len().saturating_sub(self.json.len())
    }
}

/// Returns the insertion of our member, which is `own` of the enriched report.
fn insertion<'t>(
    place: &'t MemberPlace,
    enriched: &'t [u8],
    own: Option<Range<usize>>,
) -> Option<Insertion<'t>> {
    Some(Insertion { place, value: member_value(enriched, own?)? })
}
