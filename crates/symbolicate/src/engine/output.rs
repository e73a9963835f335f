//! The JSON that enrichment adds to a report: one member in each frame, and one in the report
//! itself.

use crate::analysis::NamedFinding;
use crate::answer::DeviceNames;
use crate::answer::{FrameAnswer, Judged, Name};
use crate::engine::{Context, Detail, ImageOutcome};
use crate::grouping::{self, Grouping};
use crate::json::{JsonKey, ObjectWriter, format_dashed, key, report_text, write_string};
use crate::plan::Join;
use crate::status::{FrameStatus, ReportStatus};
use crate::symcache::{CodeAnswer, NameSource};
use time::OffsetDateTime;
use unslide_model::DebugId;
use unslide_model::ended::EndedRun;
use unslide_report::FrameCounts;

/// The version of the JSON that is added to a report. It changes when readers have to change.
pub const OUTPUT_VERSION: u32 = 1;

/// The engine's name and version, as the output states it.
pub const ENGINE: &str = concat!("unslide/", env!("CARGO_PKG_VERSION"));

/// How much detail is written for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameDetail {
    /// Everything.
    Full,
    /// Everything but the calls.
    WithoutCalls,
    /// The status and the functions' names.
    Functions,
    /// The status.
    StatusOnly,
}

impl FrameDetail {
    /// Returns the detail for a thread's frames at this output size.
    pub(crate) fn for_thread(detail: Detail, crashed: bool) -> FrameDetail {
        match (detail, crashed) {
            (Detail::Full, _) | (Detail::CrashedThreadOnly, true) => FrameDetail::Full,
            (Detail::CrashedThreadOnly, false) => FrameDetail::WithoutCalls,
            (Detail::FunctionsOnly, true) => FrameDetail::Functions,
            (Detail::FunctionsOnly, false) => FrameDetail::StatusOnly,
        }
    }

    fn has_calls(self) -> bool {
        matches!(self, FrameDetail::Full | FrameDetail::Functions)
    }
}

/// Writes the value of a frame's member.
pub(crate) fn write_frame<'a>(
    out: &mut Vec<u8>,
    answer: &FrameAnswer<'_, 'a>,
    judged: &[Judged<'_>],
    extent: FrameDetail,
    end: usize,
    names: &mut DeviceNames<'a>,
) {
    let device = match &answer.name {
        Name::Device(device) => Some(report_text(device.name)),
        Name::Nobody | Name::Symbols(_) => None,
    };
    let mut object = ObjectWriter::open(out);
    object.write_escaped(key!("status"), answer.status.as_str().as_bytes());
    if matches!(extent, FrameDetail::Full | FrameDetail::WithoutCalls) {
        write_origin(&mut object, answer, judged, device.as_deref());
    }
    if extent.has_calls() {
        match &answer.name {
            Name::Nobody => {}
            Name::Symbols(found) => write_calls(object.write_key(key!("calls")), found, extent, end),
            Name::Device(named) => {
                let own = device.as_deref().unwrap_or_default();
                let out = object.write_key(key!("calls"));
                out.push(b'[');
                let mut call = ObjectWriter::open(out);
                if let Some(demangled) = names.demangle_name(named) {
                    call.write_text(key!("function"), demangled);
                    if extent == FrameDetail::Full {
                        call.write_escaped(key!("raw"), own);
                    }
                } else {
                    call.write_escaped(key!("function"), own);
                }
                call.close();
                out.push(b']');
            }
        }
    }
    object.close();
}

/// Writes the value of a frame's member that has no address.
pub(crate) fn invalid_frame(out: &mut Vec<u8>) {
    let mut object = ObjectWriter::open(out);
    object.write_escaped(key!("status"), FrameStatus::InvalidAddress.as_str().as_bytes());
    object.close();
}

/// Writes all members of a frame between its status and its calls.
fn write_origin(
    object: &mut ObjectWriter<'_>,
    answer: &FrameAnswer<'_, '_>,
    judged: &[Judged<'_>],
    device_name: Option<&[u8]>,
) {
    match answer.name {
        Name::Nobody => {}
        Name::Symbols(found) => {
            let source: &[u8] = match found.source {
                NameSource::Dwarf => b"dwarf",
                NameSource::Symtab | NameSource::Exports => b"symtab",
            };
            object.write_escaped(key!("source"), source);
        }
        Name::Device(_) => object.write_escaped(key!("source"), b"device"),
    }
    if let Some(place) = answer.place {
        if let Some(id) = judged.get(place.image as usize).and_then(|image| image.debug_id.as_ref()) {
            object.write_escaped(key!("debug_id"), id);
        }
        object.write_number(key!("relative_address"), answer.relative);
        if answer.choice.adjusted {
            object.write_number(key!("adjusted"), 1);
        }
        object.write_flag(key!("reattributed"), place.reattributed);
        object.write_flag(key!("outside_image_size"), place.join == Join::OutsideSize);
    }
    if answer.status != FrameStatus::InvalidAddress {
        object.write_flag(key!("approximate"), answer.approximate);
        object.write_flag(key!("pac_stripped"), answer.pac_stripped);
    }
    match answer.name {
        Name::Nobody => {}
        Name::Symbols(found) => {
            if let Some(symbol) = found.symbol {
                object.write_escaped(key!("symbol"), symbol.raw());
            }
            if let Some(offset) = found.symbol_address.and_then(|start| answer.relative.checked_sub(start.0))
            {
                object.write_number(key!("symbol_offset"), offset);
            }
            folded_with(object, &found);
        }
        Name::Device(device) => {
            object.write_escaped(key!("symbol"), device_name.unwrap_or_default());
            if let Some(offset) = device.offset {
                object.write_number(key!("symbol_offset"), offset);
            }
        }
    }
}

/// Writes the names of the functions that share the same code.
fn folded_with(object: &mut ObjectWriter<'_>, answer: &CodeAnswer<'_>) {
    if !answer.is_folded() {
        return;
    }
    let out = object.write_key(key!("folded_with"));
    for (i, name) in answer.folded_with().enumerate() {
        out.extend_from_slice(if i == 0 { b"[\"" } else { b",\"" });
        out.extend_from_slice(name.raw());
        out.push(b'"');
    }
    out.push(b']');
}

/// Writes the chain of calls. Stops when the output is past `end`.
fn write_calls(out: &mut Vec<u8>, answer: &CodeAnswer<'_>, extent: FrameDetail, end: usize) {
    out.push(b'[');
    for (i, call) in answer.calls().enumerate() {
        if out.len() > end {
            break;
        }
        if i > 0 {
            out.push(b',');
        }
        let mut object = ObjectWriter::open(out);
        if !call.function.is_empty() {
            object.write_escaped(key!("function"), call.function.raw());
        }
        if extent == FrameDetail::Full {
            if let Some(raw) = call.raw {
                object.write_escaped(key!("raw"), raw.raw());
            }
            if let Some(file) = call.file {
                object.write_escaped(key!("file"), file.raw());
            }
            if let Some(line) = call.line {
                object.write_number(key!("line"), line);
            }
            if let Some(column) = call.column {
                object.write_number(key!("column"), column);
            }
            object.write_flag(key!("inlined"), call.inlined);
            if let Some(known) = call.no_return {
                object.write_escaped(key!("noreturn"), known.as_str().as_bytes());
            }
        }
        object.close();
    }
    out.push(b']');
}

/// Content of the report's own member.
pub(crate) struct ReportFacts<'f> {
    pub(crate) status: ReportStatus,
    pub(crate) counts: &'f FrameCounts,
    pub(crate) images: &'f [ImageOutcome],
    pub(crate) missing: &'f [DebugId],
    pub(crate) warnings: &'f [String],
    pub(crate) grouping: Option<&'f Grouping>,
    /// The value of the member `javascript`.
    pub(crate) javascript: Option<&'f [u8]>,
    /// The members that analyses add.
    pub(crate) findings: &'f [NamedFinding],
    /// How the run ended, for a report that is not about a crash.
    pub(crate) ended: Option<&'f EndedRun>,
    /// True if frames have less detail than was available.
    pub(crate) truncated: bool,
}

/// Writes the value of the report's member.
pub(crate) fn write_report(out: &mut Vec<u8>, facts: &ReportFacts<'_>, context: &Context<'_>) {
    let mut object = ObjectWriter::open(out);
    object.write_number(key!("version"), OUTPUT_VERSION);
    object.write_escaped(key!("engine"), ENGINE.as_bytes());
    if let Some(revision) = context.revision {
        object.write_number(key!("revision"), revision);
    }
    if let Some(supersedes) = context.supersedes {
        object.write_number(key!("supersedes"), supersedes);
    }
    object.write_escaped(key!("status"), facts.status.as_str().as_bytes());
    if facts.counts.total == 0 {
        object.write_escaped(key!("reason"), b"no_frames");
    }
    object.write_flag(key!("truncated"), facts.truncated);
    if let Some(tenant) = context.tenant {
        object.write_text(key!("tenant"), tenant.as_str());
    }
    if let Some(at) = context.processed_at {
        write_time(object.write_key(key!("processed_at")), at);
    }
    write_counts(object.write_key(key!("frames")), facts.counts);
    write_list(&mut object, key!("images"), facts.images, write_image);
    write_list(&mut object, key!("missing"), facts.missing, |out, id| {
        out.push(b'"');
        out.extend_from_slice(&format_dashed(id));
        out.push(b'"');
    });
    write_list(&mut object, key!("warnings"), facts.warnings, |out, warning| write_string(out, warning));
    if let Some(grouping) = facts.grouping {
        grouping::write_grouping(object.write_key(key!("grouping")), grouping);
    }
    if let Some(javascript) = facts.javascript {
        object.write_key(key!("javascript")).extend_from_slice(javascript);
    }
    if let Some(ended) = facts.ended {
        write_ended(object.write_key(key!("ended")), ended);
    }
    // Without it a reader could not tell an analysis that was off from one that had nothing to say.
    write_list(&mut object, key!("analyses"), context.analyses, |out, analysis| {
        write_string(out, analysis.name);
    });
    for finding in facts.findings {
        object.runtime_key(finding.member).extend_from_slice(finding.value.get().as_bytes());
    }
    object.close();
}

fn write_ended(out: &mut Vec<u8>, ended: &EndedRun) {
    let mut object = ObjectWriter::open(out);
    object.write_text(key!("kind"), ended.kind.as_str());
    object.write_text(key!("rule"), ended.rule.as_str());
    object.write_text(key!("confidence"), ended.confidence.as_str());
    if let Some(foreground) = ended.foreground {
        let value: &[u8] = if foreground { b"true" } else { b"false" };
        object.write_key(key!("foreground")).extend_from_slice(value);
    }
    write_list(&mut object, key!("evidence"), &ended.evidence, |out, evidence| {
        let mut fact = ObjectWriter::open(out);
        fact.write_text(key!("kind"), evidence.kind.as_str());
        fact.write_text(key!("value"), &evidence.value);
        fact.close();
    });
    object.close();
}

/// Writes a list, or nothing if it is empty.
fn write_list<T>(object: &mut ObjectWriter<'_>, key: JsonKey, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    if items.is_empty() {
        return;
    }
    let out = object.write_key(key);
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

fn write_counts(out: &mut Vec<u8>, counts: &FrameCounts) {
    let mut object = ObjectWriter::open(out);
    object.write_number(key!("total"), counts.total);
    for (key, count) in [
        (key!("symbolicated"), counts.symbolicated),
        (key!("device"), counts.device),
        (key!("device_app"), counts.device_app),
        (key!("missing_symbol"), counts.missing_symbol),
        (key!("missing"), counts.missing),
        (key!("unknown_image"), counts.unknown_image),
        (key!("malformed"), counts.malformed),
        (key!("unsupported"), counts.unsupported),
        (key!("fetching_failed"), counts.fetching_failed),
        (key!("invalid_address"), counts.invalid_address),
        (key!("invalid"), counts.invalid),
    ] {
        if count > 0 {
            object.write_number(key, count);
        }
    }
    object.close();
}

fn write_image(out: &mut Vec<u8>, image: &ImageOutcome) {
    let mut object = ObjectWriter::open(out);
    if let Some(id) = &image.debug_id {
        object.write_escaped(key!("debug_id"), &format_dashed(id));
    }
    if !image.name.is_empty() {
        object.write_text(key!("name"), &image.name);
    }
    if let Some(arch) = image.arch {
        object.write_escaped(key!("arch"), arch.as_bytes());
    }
    object.write_escaped(key!("status"), image.status.as_str().as_bytes());
    if let Some(slide) = image.slide {
        object.write_number(key!("slide"), slide);
    }
    if let Some(generation) = image.generation {
        object.write_number(key!("generation"), generation);
    }
    object.write_flag(key!("stripped"), image.stripped);
    object.write_flag(key!("system"), image.system);
    object.write_flag(key!("vmaddr_differs"), image.vmaddr_differs);
    object.close();
}

/// Writes a time as RFC 3339 in UTC, with milliseconds.
fn write_time(out: &mut Vec<u8>, at: OffsetDateTime) {
    let at = at.to_offset(time::UtcOffset::UTC);
    let text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    );
    write_string(out, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_milliseconds_in_utc() {
        let at = OffsetDateTime::from_unix_timestamp_nanos(1_795_165_200_007_900_000).unwrap();
        let mut out = Vec::new();
        write_time(&mut out, at.to_offset(time::UtcOffset::from_hms(5, 30, 0).unwrap()));
        assert_eq!(String::from_utf8(out).unwrap(), "\"2026-11-20T09:00:00.007Z\"");
    }

    #[test]
    fn slides_are_written_over_their_whole_range() {
        let mut out = Vec::new();
        crate::json::write_integer(&mut out, -i128::from(u64::MAX));
        assert_eq!(out, b"-18446744073709551615");
    }
}
