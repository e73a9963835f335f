//! Reading: bytes to a [`Report`].

mod call_tree;
mod diagnostics;
mod frames;
mod memory;
mod part;

use crate::blank::{BlankFrame, FrameSlot};
use crate::json::{JsonScanner, Value, type_name};
use crate::report::memory::jetsam_event;
use crate::report::{Backtrace, Invalid, Report, ReportPart};
use crate::spans::remove_spans;
use crate::{Ours, ReadError, ReadLimits};
use part::{ReadPart, append_backtraces, read_part};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;
use unslide_model::ReportId;

impl<'a> Report<'a> {
    /// Reads one report. The report may already be enriched: its frames are read in the same way, and
    /// our additions are found.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the bytes are too many, nest too deep, are not JSON, are cut off, or are not an object.
    pub fn read(input: &'a [u8], limits: &ReadLimits) -> Result<Report<'a>, ReadError> {
        read_all(JsonScanner::new(input, limits)?)
    }

    /// Reads a report that was read before it was symbolicated. With our additions, only its size may exceed
    /// the limits.
    ///
    /// # Errors
    /// Returns the errors of [`Report::read`].
    pub fn read_stored(input: &'a [u8]) -> Result<Report<'a>, ReadError> {
        Report::read(input, &ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() })
    }

    /// Reads a new record as [`Report::read`] does, and refuses an object without an event. Accepts an object if
    /// `crash` is an object with an object `error` or an array `threads`, if `recrash_report` is an object, if the
    /// report is one sampled MetricKit diagnostic, or if it is [about memory](Report::memory_event).
    ///
    /// # Errors
    /// Returns the errors of [`Report::read`], [`ReadError::NoCrash`] and [`ReadError::Diagnostics`].
    pub fn read_event(input: &'a [u8], limits: &ReadLimits) -> Result<Report<'a>, ReadError> {
        let report = Report::read(input, limits)?;
        let outer = report.parts.first().map(|part| part.sections).unwrap_or_default();
        let crashed = report.parts.len() > 1 || outer.error.is_some() || outer.has_threads;
        let diagnostics = report.parts.first().map_or(0, |part| part.diagnostics);
        let is_diagnostic = diagnostics == 1 && report.diagnostic().is_some();
        if crashed || is_diagnostic || report.memory_event().is_some() {
            return Ok(report);
        }
        if diagnostics > 0 {
            return Err(ReadError::Diagnostics { count: diagnostics });
        }
        let missing = if outer.crash.is_some() {
            "the `crash` of this one has neither"
        } else {
            "this one has no such member"
        };
        Err(ReadError::NoCrash { missing })
    }

    /// Returns the report without our additions: the input itself if there are none.
    #[must_use]
    pub fn strip_additions(&self) -> Cow<'a, [u8]> {
        if self.own_member.is_none() {
            return Cow::Borrowed(self.input);
        }
        Cow::Owned(remove_spans(self.input, self.own_members()))
    }

    /// Returns the value of our member of the report object.
    #[must_use]
    pub fn own_value(&self) -> Option<&'a [u8]> {
        let member = self.input.get(self.own_member.clone()?)?;
        let colon = member.iter().position(|byte| *byte == b':')?;
        Some(member.get(colon + 1..)?.trim_ascii_start())
    }

    /// Returns the spans of all our additions, in ascending order.
    fn own_members(&self) -> Vec<Range<usize>> {
        let slots = self.backtraces.iter().flat_map(Backtrace::frame_slots);
        let own = slots.filter_map(|slot| match slot {
            FrameSlot::Frame(frame) => frame.own_member.clone(),
            FrameSlot::Blank(blank) => blank.own_member(),
        });
        let mut spans: Vec<_> = own.collect();
        spans.extend(self.own_member.clone());
        spans
    }
}

fn read_all(mut s: JsonScanner<'_>) -> Result<Report<'_>, ReadError> {
    s.skip_preamble()?;
    if s.peek_byte() != Some(b'{') {
        let (offset, found) = (s.pos(), type_name(s.peek_byte()));
        s.skip_value()?;
        s.expect_end()?;
        return Err(ReadError::NotAReport { offset, found });
    }
    let outer = read_part(&mut s, 0)?;
    s.part = 0;
    s.expect_end()?;
    Ok(assemble_report(s.input(), outer, s))
}

fn assemble_report<'a>(input: &'a [u8], outer: ReadPart<'a>, s: JsonScanner<'a>) -> Report<'a> {
    let (insert_at, members) = (outer.close, outer.members);
    let ours = outer.last.as_ref().and_then(|last| Ours::from_value(Value::from_offset(input, last.value)));
    let own_member = outer.last.as_ref().map(|last| last.member.clone()).filter(|_| ours.is_some());

    let mut parts = Vec::new();
    let mut backtraces = Vec::new();
    let mut invalid = Invalid::default();
    let mut next = Some(Box::new(outer));
    while let Some(one) = next {
        let ReadPart { part, backtraces: own, invalid: own_invalid, inner, .. } = *one;
        invalid.threads += own_invalid.threads;
        invalid.frames += own_invalid.frames;
        invalid.images += own_invalid.images;
        parts.push(part);
        append_backtraces(&mut backtraces, own);
        next = inner;
    }
    lend_images(&mut parts);
    // No two backtraces begin at the same byte.
    backtraces.sort_unstable_by_key(|b| b.start);
    for frame in backtraces.iter_mut().flat_map(|b| &mut b.frames) {
        if own_member.is_none() {
            frame.own_member = None;
        } else if let Some(member) = &frame.own_member {
            frame.has_members = input.get(member.start) == Some(&b',');
        }
    }
    if own_member.is_none() {
        backtraces.iter_mut().flat_map(|b| &mut b.blank_frames).for_each(BlankFrame::treat_as_foreign);
    }
    let has_members = members > usize::from(own_member.is_some());
    let id = parts.iter().find_map(|part| part.report_id);
    let jetsam = parts.first().and_then(|outer| jetsam_event(input, outer));
    let mut report = Report {
        input,
        id: id.unwrap_or(ReportId([0; 16])),
        parts,
        backtraces,
        warnings: s.warnings,
        invalid,
        insert_at,
        has_members,
        ours,
        own_member,
        jetsam,
        memory: OnceLock::new(),
        error: OnceLock::new(),
    };
    if id.is_none() {
        report.id = id_of(&report.strip_additions());
    }
    report
}

/// Returns the id of a report without an id of its own.
fn id_of(bytes: &[u8]) -> ReportId {
    let hash = Sha256::digest(bytes);
    let mut id = [0; 16];
    id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    ReportId(id)
}

/// Assigns to each part the nearest list with images: its own first, then the inner neighbour's.
fn lend_images(parts: &mut [ReportPart<'_>]) {
    let filled: Vec<bool> = parts.iter().map(|part| !part.images.is_empty()).collect();
    for (own, part) in parts.iter_mut().enumerate() {
        let candidates = filled.iter().enumerate().filter(|(_, filled)| **filled).map(|(index, _)| index);
        part.image_source = candidates.min_by_key(|index| (index.abs_diff(own), *index < own));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Members that stand as those before them are read as if each were the first.
        #[test]
        fn what_is_remembered_of_members_changes_nothing(
            seed: u64,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 0..4),
        ) {
            let mut bytes = unslide_testkit::reports::random(seed).bytes();
            for (at, byte, kind) in changes {
                let at = at.index(bytes.len());
                match kind {
                    0 => bytes[at] = byte,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, b"{}[],:\"\\ 0-e.tn\n\0"[usize::from(byte) % 17]),
                }
            }
            let limits = ReadLimits::default();
            let remembering = Report::read(&bytes, &limits);
            let forgetting = read_all(JsonScanner::from_position(&bytes, 0, limits.max_depth));
            prop_assert_eq!(format!("{remembering:?}"), format!("{forgetting:?}"));
        }
    }
}
