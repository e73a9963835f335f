//! Limits of the output's size.

use crate::analysis::NamedFinding;
use crate::grouping;
use crate::javascript::least_bytes as least_javascript_bytes;
use crate::plan::Plan;
use std::ops::Range;
use unslide_report::{Backtrace, BlankFrame, FrameSlot, Report};

/// Returns the output limit for a report of `report_bytes`, not counting earlier enrichment. A real report
/// grows a few times. A hostile symcache, with the longest names in the longest chains of inlined calls, would
/// add megabytes for each frame.
#[must_use]
pub fn most_bytes(report_bytes: usize) -> usize {
    const FLOOR: usize = 512 << 10;
    const FACTOR: usize = 16;
    report_bytes.saturating_mul(FACTOR).saturating_add(FLOOR)
}

/// Content of the report's own member that is always written.
pub(super) struct AlwaysWritten<'f> {
    pub(super) warnings: usize,
    pub(super) findings: &'f [NamedFinding],
}

/// Returns the number of bytes that an earlier enrichment added to the report.
pub(super) fn own_bytes(report: &Report<'_>) -> usize {
    let Some(own) = &report.own_member else { return 0 };
    let of_frame = |slot: FrameSlot<'_, '_>| match slot {
        FrameSlot::Frame(frame) => frame.own_member.as_ref().map_or(0, Range::len),
        FrameSlot::Blank(blank) => blank.own_member().map_or(0, |own| own.len()),
    };
    let of_frames: usize = report.backtraces.iter().flat_map(Backtrace::frame_slots).map(of_frame).sum();
    (own.len() + of_frames).min(report.input.len())
}

pub(super) fn blank_frames<'r>(report: &'r Report<'_>) -> impl Iterator<Item = &'r BlankFrame> {
    report.backtraces.iter().flat_map(|backtrace| &backtrace.blank_frames)
}

/// Returns the most bytes that are always written for a report: the status of each frame, and the report's own
/// member.
pub(super) fn least_bytes(plan: &Plan<'_, '_>, always: &AlwaysWritten<'_>) -> usize {
    const FRAME: usize = 64;
    const IMAGE: usize = 512;
    const WARNING: usize = 256;
    const MEMBER: usize = 1024;
    // How the run ended: words, and two values of at most 100 characters.
    const ENDED: usize = 1024;
    const FINDING_KEY: usize = 64;
    // An invalid UTF-8 byte becomes three bytes.
    let names: usize = plan.images.iter().map(|image| 3 * image.file.len() + image.bundle_bytes()).sum();
    let findings: usize = always.findings.iter().map(|finding| FINDING_KEY + finding.value.get().len()).sum();
    MEMBER
        + ENDED
        + findings
        + grouping::MOST_BYTES
        + (plan.frames.len() + blank_frames(plan.report).count()) * FRAME
        + plan.images.len() * IMAGE
        + names
        + always.warnings * WARNING
        + plan.javascript.as_ref().map_or(0, least_javascript_bytes)
}
