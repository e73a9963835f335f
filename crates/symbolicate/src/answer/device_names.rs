//! Demangled forms of the device's names in one report.

use crate::answer::{DeviceName, Judged};
use crate::demangle::{SwiftNames, demangle, is_swift};
use crate::plan::{Plan, PlannedFrame};
use std::collections::HashMap;
use unslide_model::Quality;

/// The budget of one report for mangled and readable names in bytes, for all languages: demangling takes time
/// in proportion to both. At worst, some hundred bytes of C++ take as many steps as LLVM's demangler may use. A
/// name costs twice its length, plus the part of its readable form that exceeds this. The budget is enough for
/// thousands of different names, more than any real report has. After that, names stay as the device gave them.
const MOST_BYTES: usize = 1 << 20;

/// Demangled names of one report. Each name is demangled once, and Swift names are demangled in one batch.
pub(crate) struct DeviceNames<'a> {
    known: HashMap<&'a [u8], Option<String>>,
    bytes_left: usize,
}

impl<'a> DeviceNames<'a> {
    /// Demangles the Swift names of a plan's frames in images without symbols.
    pub(crate) fn new(plan: &Plan<'_, 'a>, images: &[Judged<'_>]) -> DeviceNames<'a> {
        let unnamed = |planned: &PlannedFrame| {
            let image = planned.place.and_then(|place| images.get(place.image as usize));
            image.is_some_and(|i| i.symbols.is_none_or(|symbols| symbols.quality() == Quality::None))
        };
        let mut names = DeviceNames { known: HashMap::new(), bytes_left: MOST_BYTES };
        let frames = plan.report.backtraces.iter().flat_map(|backtrace| &backtrace.frames);
        let mut swift = Vec::new();
        for (frame, planned) in frames.zip(&plan.frames) {
            if !unnamed(planned) {
                continue;
            }
            let Some(name) = frame.symbol_name.filter(|name| is_swift(name.raw())) else { continue };
            if names.known.contains_key(name.raw()) {
                continue;
            }
            // Half of the budget is kept for the other languages, which are demangled on demand.
            if names.bytes_left < MOST_BYTES / 2 || !names.charge_bytes(2 * name.raw().len()) {
                break;
            }
            names.known.insert(name.raw(), None);
            swift.push((name.raw(), name.decode()));
        }
        let texts: Vec<&str> = swift.iter().map(|(_, text)| &**text).collect();
        // If Swift's demangler is unavailable, names stay as the device gave them.
        let answers = SwiftNames::for_report().demangle(&texts).unwrap_or_default();
        for ((raw, _), answer) in swift.iter().zip(answers) {
            names.keep_name(raw, answer);
        }
        names
    }

    /// Returns the readable form of a device's name; `None` if there is no other, or the report's budget is
    /// used up.
    pub(crate) fn demangle_name(&mut self, device: &DeviceName<'a>) -> Option<&str> {
        const MANGLED_PREFIXES: [&[u8]; 4] = [b"_Z", b"__Z", b"___Z", b"_R"];
        let raw = device.name.raw();
        let mangled = MANGLED_PREFIXES.iter().any(|prefix| raw.starts_with(prefix));
        // Most names are neither, and need no hash look-up.
        if !mangled && !is_swift(raw) {
            return None;
        }
        if mangled && !self.known.contains_key(raw) && self.charge_bytes(2 * raw.len()) {
            self.keep_name(raw, demangle(&device.name.decode()));
        }
        self.known.get(raw)?.as_deref()
    }

    /// Charges `bytes` to the budget. Once an amount does not fit, the budget is empty.
    fn charge_bytes(&mut self, bytes: usize) -> bool {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Keeps a readable name. Twice the length of the mangled one is charged already.
    fn keep_name(&mut self, raw: &'a [u8], readable: Option<String>) {
        let readable =
            readable.filter(|readable| self.charge_bytes(readable.len().saturating_sub(2 * raw.len())));
        self.known.insert(raw, readable);
    }
}
