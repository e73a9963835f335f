//! What is added to a report, as JSON: a member in each frame and one in the report itself.

use crate::answer::{DeviceName, FrameAnswer, Name};
use crate::demangle::demangle;
use crate::engine::{Context, Detail, ImageOutcome};
use crate::json::{Object, debug_id, report_text, string};
use crate::plan::Plan;
use crate::status::{FrameStatus, ReportStatus};
use crate::symcache::{Answer, Source};
use std::collections::HashMap;
use time::OffsetDateTime;
use unslide_model::DebugId;
use unslide_report::FrameCounts;

/// The version of what is added to a report. It changes when a reader would have to.
pub const VERSION: u32 = 1;

/// The engine's name and version, as the output states it.
pub const ENGINE: &str = concat!("unslide/", env!("CARGO_PKG_VERSION"));

/// How much is said of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything.
    Full,
    /// Everything but the calls.
    WithoutCalls,
    /// The status and the functions' names.
    Functions,
    /// The status.
    StatusOnly,
}

impl Extent {
    /// How much is said of a thread's frames in an output of this size.
    pub(crate) fn of(detail: Detail, crashed: bool) -> Extent {
        match (detail, crashed) {
            (Detail::Full, _) | (Detail::CrashedThreadOnly, true) => Extent::Full,
            (Detail::CrashedThreadOnly, false) => Extent::WithoutCalls,
            (Detail::FunctionsOnly, true) => Extent::Functions,
            (Detail::FunctionsOnly, false) => Extent::StatusOnly,
        }
    }

    fn calls(self) -> bool {
        matches!(self, Extent::Full | Extent::Functions)
    }
}

/// Demangled names of one report, so that a name that the device gives in many frames is demangled
/// once.
#[derive(Default)]
pub(crate) struct DeviceNames<'a>(HashMap<&'a [u8], Option<String>>);

impl<'a> DeviceNames<'a> {
    /// The readable form of a device's name; `None` where there is no other.
    pub(crate) fn demangled(&mut self, device: &DeviceName<'a>) -> Option<&str> {
        let raw = device.name.raw();
        let mangled: [&[u8]; 9] = [b"_Z", b"__Z", b"___Z", b"$s", b"_$s", b"$S", b"_$S", b"_T", b"_R"];
        if !mangled.iter().any(|prefix| raw.starts_with(prefix)) {
            return None;
        }
        self.0.entry(raw).or_insert_with(|| demangle(&device.name.decode())).as_deref()
    }
}

/// Writes the value of a frame's member.
pub(crate) fn frame<'a>(
    out: &mut Vec<u8>,
    answer: &FrameAnswer<'_, 'a>,
    plan: &Plan<'_, 'a>,
    extent: Extent,
    names: &mut DeviceNames<'a>,
) {
    let mut object = Object::open(out);
    object.escaped("status", answer.status.as_str().as_bytes());
    if matches!(extent, Extent::Full | Extent::WithoutCalls) {
        origin(&mut object, answer, plan);
    }
    if extent.calls() {
        match &answer.name {
            Name::Nobody => {}
            Name::Symbols(found) => calls(object.key("calls"), found, extent),
            Name::Device(device) => {
                let demangled = names.demangled(device);
                let out = object.key("calls");
                out.push(b'[');
                let mut call = Object::open(out);
                if let Some(demangled) = demangled {
                    call.text("function", demangled);
                    if extent == Extent::Full {
                        report_text(call.key("raw"), device.name);
                    }
                } else {
                    report_text(call.key("function"), device.name);
                }
                call.close();
                out.push(b']');
            }
        }
    }
    object.close();
}

/// Everything of a frame between its status and its calls.
fn origin(object: &mut Object<'_>, answer: &FrameAnswer<'_, '_>, plan: &Plan<'_, '_>) {
    match answer.name {
        Name::Nobody => {}
        Name::Symbols(found) => {
            let source: &[u8] = match found.source {
                Source::Dwarf => b"dwarf",
                Source::Symtab | Source::Exports => b"symtab",
            };
            object.escaped("source", source);
        }
        Name::Device(_) => object.escaped("source", b"device"),
    }
    if let Some(place) = answer.place {
        if let Some(id) = plan.images.get(place.image as usize).and_then(|i| i.debug_id) {
            debug_id(object.key("debug_id"), &id);
        }
        object.number("relative_address", answer.relative);
        if answer.choice.adjusted {
            object.number("adjusted", 1);
        }
        object.flag("reattributed", place.reattributed);
    }
    if answer.status != FrameStatus::InvalidAddress {
        object.flag("approximate", answer.approximate);
        object.flag("pac_stripped", answer.pac_stripped);
    }
    match answer.name {
        Name::Nobody => {}
        Name::Symbols(found) => {
            if let Some(symbol) = found.symbol {
                object.escaped("symbol", symbol.as_bytes());
            }
            if let Some(offset) = found.symbol_address.and_then(|start| answer.relative.checked_sub(start.0))
            {
                object.number("symbol_offset", offset);
            }
        }
        Name::Device(device) => {
            report_text(object.key("symbol"), device.name);
            if let Some(offset) = device.offset {
                object.number("symbol_offset", offset);
            }
        }
    }
}

fn calls(out: &mut Vec<u8>, answer: &Answer<'_>, extent: Extent) {
    out.push(b'[');
    for (i, call) in answer.calls().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let mut object = Object::open(out);
        if !call.function.is_empty() {
            object.escaped("function", call.function.as_bytes());
        }
        if extent == Extent::Full {
            if let Some(raw) = call.raw {
                object.escaped("raw", raw.as_bytes());
            }
            if let Some(file) = call.file {
                object.escaped("file", file.as_bytes());
            }
            if let Some(line) = call.line {
                object.number("line", line);
            }
            if let Some(column) = call.column {
                object.number("column", column);
            }
            object.flag("inlined", call.inlined);
        }
        object.close();
    }
    out.push(b']');
}

/// What the report's member says.
pub(crate) struct ReportFacts<'f> {
    pub(crate) status: ReportStatus,
    pub(crate) counts: &'f FrameCounts,
    pub(crate) images: &'f [ImageOutcome],
    pub(crate) missing: &'f [DebugId],
    pub(crate) warnings: &'f [String],
}

/// Writes the value of the report's member.
pub(crate) fn report(out: &mut Vec<u8>, facts: &ReportFacts<'_>, context: &Context<'_>) {
    let mut object = Object::open(out);
    object.number("version", VERSION);
    object.escaped("engine", ENGINE.as_bytes());
    if let Some(revision) = context.revision {
        object.number("revision", revision);
    }
    if let Some(supersedes) = context.supersedes {
        object.number("supersedes", supersedes);
    }
    object.escaped("status", facts.status.as_str().as_bytes());
    if facts.counts.total == 0 {
        object.escaped("reason", b"no_frames");
    }
    object.flag("truncated", context.detail != Detail::Full);
    if let Some(tenant) = context.tenant {
        object.text("tenant", tenant.as_str());
    }
    if let Some(at) = context.processed_at {
        moment(object.key("processed_at"), at);
    }
    counts(object.key("frames"), facts.counts);
    list(&mut object, "images", facts.images, image);
    list(&mut object, "missing", facts.missing, debug_id);
    list(&mut object, "warnings", facts.warnings, |out, warning| string(out, warning));
    object.close();
}

/// A list, left out where it is empty.
fn list<T>(object: &mut Object<'_>, key: &str, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    if items.is_empty() {
        return;
    }
    let out = object.key(key);
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

fn counts(out: &mut Vec<u8>, counts: &FrameCounts) {
    let mut object = Object::open(out);
    object.number("total", counts.total);
    for (key, count) in [
        ("symbolicated", counts.symbolicated),
        ("device", counts.device),
        ("missing_symbol", counts.missing_symbol),
        ("missing", counts.missing),
        ("unknown_image", counts.unknown_image),
        ("malformed", counts.malformed),
        ("unsupported", counts.unsupported),
        ("fetching_failed", counts.fetching_failed),
        ("invalid_address", counts.invalid_address),
        ("invalid", counts.invalid),
    ] {
        if count > 0 {
            object.number(key, count);
        }
    }
    object.close();
}

fn image(out: &mut Vec<u8>, image: &ImageOutcome) {
    let mut object = Object::open(out);
    if let Some(id) = &image.debug_id {
        debug_id(object.key("debug_id"), id);
    }
    if !image.name.is_empty() {
        object.text("name", &image.name);
    }
    if let Some(arch) = image.arch {
        object.escaped("arch", arch.as_bytes());
    }
    object.escaped("status", image.status.as_str().as_bytes());
    if let Some(slide) = image.slide {
        object.number("slide", slide);
    }
    if let Some(generation) = image.generation {
        object.number("generation", generation);
    }
    object.flag("system", image.system);
    object.flag("vmaddr_differs", image.vmaddr_differs);
    object.close();
}

/// RFC 3339 in UTC with milliseconds.
fn moment(out: &mut Vec<u8>, at: OffsetDateTime) {
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
    string(out, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_milliseconds_in_utc() {
        let at = OffsetDateTime::from_unix_timestamp_nanos(1_795_165_200_007_900_000).unwrap();
        let mut out = Vec::new();
        moment(&mut out, at.to_offset(time::UtcOffset::from_hms(5, 30, 0).unwrap()));
        assert_eq!(String::from_utf8(out).unwrap(), "\"2026-11-20T09:00:00.007Z\"");
    }

    #[test]
    fn slides_are_written_over_their_whole_range() {
        let mut out = Vec::new();
        crate::json::integer(&mut out, -i128::from(u64::MAX));
        assert_eq!(out, b"-18446744073709551615");
    }
}
