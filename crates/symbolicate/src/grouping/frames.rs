//! The frames of the backtrace that counts, with the names of their functions. The names come from symbols or
//! from an enriched report.

use super::{MOST_FRAMES, PATH_CHARS};
use crate::answer::{DeviceNames, Judged, Name, answer_frame, settle_address};
use crate::demangle::is_rust;
use crate::plan::{Plan, PlannedFrame, PlannedImage};
use crate::rules::is_sigtramp;
use crate::status::FrameStatus;
use crate::symcache::{CodeAnswer, NameSource, NoReturn};
use std::borrow::Cow;
use std::collections::HashMap;
use unslide_model::is_hidden_symbol;
use unslide_report::{Backtrace, Frame, OurFrame, Report, Text};

/// Limits: functions that are looked at, and characters of each name.
pub(super) const MOST_CALLS: usize = 4_096;
const NAME_CHARS: usize = 2_000;
/// The fewest frames of a recursion that can fill a stack.
const LEAST_FRAMES: usize = 48;
/// The fewest of them that a log lists that leaves the others out.
const LEAST_LISTED_FRAMES: usize = 8;

/// Source of the names of functions.
pub(super) enum NamedBy<'n, 's, 'a> {
    /// The symbols of each image, or else the device.
    Symbols(&'n [Judged<'s>], &'n mut DeviceNames<'a>),
    /// The report itself, which is enriched already.
    Report,
}

/// A frame with its functions.
pub(super) struct NamedFrame<'p, 'a> {
    pub(super) index: usize,
    pub(super) image: Option<&'p PlannedImage<'a>>,
    /// The address from the image's start.
    pub(super) relative: u64,
    /// True if better symbols may name it later.
    pub(super) waits: bool,
    pub(super) functions: FrameFunctions<'p, 'a>,
}

/// The functions of a frame. A chain of inlined calls may be very long, so each function is read on demand.
pub(super) enum FrameFunctions<'p, 'a> {
    Unknown,
    Symbols(CodeAnswer<'p>),
    Device(DeviceFunction<'a>),
    Report(OurFrame<'a>),
}

/// A function that only the device names.
pub(super) struct DeviceFunction<'a> {
    name: Cow<'a, str>,
    raw: Text<'a>,
}

impl FrameFunctions<'_, '_> {
    pub(super) fn are_unknown(&self) -> bool {
        matches!(self, FrameFunctions::Unknown)
    }

    /// True if a hidden name replaces the function's own.
    pub(super) fn are_hidden(&self) -> bool {
        let symbol = match self {
            FrameFunctions::Unknown => None,
            FrameFunctions::Symbols(found) => found.symbol,
            FrameFunctions::Device(device) => Some(device.raw),
            FrameFunctions::Report(ours) => ours.symbol(),
        };
        symbol.is_some_and(|symbol| is_hidden_symbol(symbol.raw()))
    }

    /// Calls `each` for every function, starting at the innermost inlined one.
    pub(super) fn for_each(&self, mut each: impl FnMut(NamedFunction)) {
        match self {
            FrameFunctions::Unknown => {}
            FrameFunctions::Device(device) => each(NamedFunction::new(&device.name, Some(device.raw), None)),
            FrameFunctions::Symbols(found) => {
                let has_debug_info = found.source == NameSource::Dwarf;
                let calls = found.calls().take(MOST_CALLS);
                calls.for_each(|call| {
                    let named = NamedFunction::new(&call.function.decode(), call.raw, call.file);
                    each(named.with_return(call.no_return, has_debug_info));
                });
            }
            FrameFunctions::Report(ours) => {
                for call in ours.read_calls().into_iter().take(MOST_CALLS) {
                    let name = call.function.map(Text::decode).unwrap_or_default();
                    let known = |known: &NoReturn| call.no_return.is_some_and(|said| said.is(known.as_str()));
                    let no_return = NoReturn::ALL.into_iter().find(known);
                    let named = NamedFunction::new(&name, call.raw, call.file);
                    each(named.with_return(no_return, ours.is_from_debug_info()));
                }
            }
        }
    }
}

/// A function, and the path of its source file.
pub(super) struct NamedFunction {
    pub(super) name: String,
    pub(super) path: Option<String>,
    /// True if its linkage name is a Rust name.
    pub(super) is_rust: bool,
    /// The evidence that it never returns, if any.
    pub(super) no_return: Option<NoReturn>,
    /// True if debug information names it. That information then also says whether it returns.
    pub(super) has_debug_info: bool,
}

impl NamedFunction {
    pub(super) fn new(name: &str, raw: Option<Text<'_>>, path: Option<Text<'_>>) -> NamedFunction {
        let path = path.map(|path| path.decode().chars().take(PATH_CHARS).collect());
        let is_rust = raw.is_some_and(|raw| is_rust(&raw.decode()));
        let name = name.chars().take(NAME_CHARS).collect();
        NamedFunction { name, path, is_rust, no_return: None, has_debug_info: false }
    }

    fn with_return(self, no_return: Option<NoReturn>, has_debug_info: bool) -> NamedFunction {
        NamedFunction { no_return, has_debug_info, ..self }
    }
}

/// A frame and its planned look-up.
pub(super) type PlannedCall<'p, 'a> = (&'p Frame<'a>, &'p PlannedFrame);

/// Returns the frames of a backtrace with their planned look-ups.
pub(super) fn list_planned<'p, 'r, 'a>(
    plan: &'p Plan<'r, 'a>,
    backtrace: &'p Backtrace<'a>,
) -> Vec<PlannedCall<'p, 'a>> {
    let before = plan.report.backtraces.iter().take_while(|other| !std::ptr::eq(*other, backtrace));
    let first: usize = before.map(|other| other.frames.len()).sum();
    backtrace.frames.iter().zip(plan.frames.iter().skip(first)).collect()
}

/// Returns the frames of one cycle of a recursion that has filled the stack.
pub(super) fn find_recursion_cycle<'p, 'a>(
    report: &Report<'_>,
    frames: &[PlannedCall<'p, 'a>],
) -> Option<Vec<PlannedCall<'p, 'a>>> {
    // Logs of recent systems leave the middle of a recursion out.
    let left_out = usize::try_from(report.left_out_frames()).unwrap_or(usize::MAX);
    if frames.len().saturating_add(left_out) < LEAST_FRAMES {
        return None;
    }
    let least = LEAST_FRAMES.saturating_sub(left_out).max(LEAST_LISTED_FRAMES);
    match report.has_failed_near_stack_pointer() {
        // The failure is not near the stack pointer: the recursion ended, and a function that it called failed.
        Some(false) => None,
        Some(true) if frames.len() < LEAST_FRAMES => exact_turn(frames, least),
        Some(true) => exact_turn(frames, least).or_else(|| branching_turn(frames)),
        None => exact_turn(frames, least),
    }
}

/// Returns the shortest run of addresses that repeats, over at least `least` frames.
fn exact_turn<'p, 'a>(frames: &[PlannedCall<'p, 'a>], least: usize) -> Option<Vec<PlannedCall<'p, 'a>>> {
    const CYCLE_FRAMES_LIMIT: usize = 32;
    // The innermost frames may belong to a function that the last cycle called.
    const LATEST_START: usize = 32;
    let address = |at: usize| frames.get(at).map(|(_, planned)| planned.address);
    for start in 0..LATEST_START {
        for period in 1..=CYCLE_FRAMES_LIMIT {
            let repeats = |at: &usize| address(*at).is_some() && address(*at) == address(at + period);
            let run = (start..).take_while(repeats).count();
            if run >= least.max(2 * period) {
                return Some(frames[start..start + period].to_vec());
            }
        }
    }
    None
}

/// Returns one frame for each address that a recursion with several call sites, such as a walk through a tree,
/// keeps returning to. Their order differs from cycle to cycle.
fn branching_turn<'p, 'a>(frames: &[PlannedCall<'p, 'a>]) -> Option<Vec<PlannedCall<'p, 'a>>> {
    /// An address counts if at least one in this many frames has it.
    const LEAST_ADDRESS_SHARE: usize = 16;
    let frames = &frames[..frames.len().min(MOST_FRAMES)];
    let mut times: HashMap<u64, usize> = HashMap::new();
    for (_, planned) in frames {
        *times.entry(planned.address).or_default() += 1;
    }
    times.retain(|_, times| *times * LEAST_ADDRESS_SHARE >= frames.len());
    if times.values().sum::<usize>() * 4 < frames.len() * 3 {
        return None;
    }
    // Keeps the first frame of each address.
    Some(frames.iter().filter(|(_, planned)| times.remove(&planned.address).is_some()).copied().collect())
}

/// Returns each frame with its functions, named on demand.
pub(super) fn name_frames<'f, 'r, 'a>(
    plan: &'f Plan<'r, 'a>,
    mut by: NamedBy<'f, 'f, 'a>,
    frames: &'f [PlannedCall<'f, 'a>],
) -> impl Iterator<Item = NamedFrame<'f, 'a>> {
    let mut after_sigtramp = false;
    frames.iter().map(move |(frame, planned)| {
        let (named, sigtramp) = match &mut by {
            NamedBy::Symbols(judged, names) => {
                by_symbols(plan, judged, names, frame, planned, after_sigtramp)
            }
            NamedBy::Report => by_report(plan, frame, planned, after_sigtramp),
        };
        after_sigtramp = sigtramp;
        named
    })
}

/// Names a frame by symbols, or else by the device. Also returns whether it calls a signal handler.
fn by_symbols<'p, 'a>(
    plan: &'p Plan<'_, 'a>,
    judged: &'p [Judged<'p>],
    names: &mut DeviceNames<'a>,
    frame: &Frame<'a>,
    planned: &PlannedFrame,
    after_sigtramp: bool,
) -> (NamedFrame<'p, 'a>, bool) {
    let answered = answer_frame(plan, judged, frame, planned, after_sigtramp);
    let functions = match answered.name {
        Name::Symbols(found) => FrameFunctions::Symbols(found),
        Name::Device(device) => {
            let readable = names.demangle_name(&device).map(|name| Cow::Owned(name.to_owned()));
            let name = readable.unwrap_or_else(|| device.name.decode());
            FrameFunctions::Device(DeviceFunction { name, raw: device.name })
        }
        Name::Nobody => FrameFunctions::Unknown,
    };
    let place = answered.place.map(|place| place.image as usize);
    let image = place.and_then(|place| plan.images.get(place));
    let judged = place.and_then(|place| judged.get(place));
    let lacks_dsym = image.zip(judged).is_some_and(|(image, judged)| judged.lacks_dsym(image));
    let waits = (lacks_dsym || waits_for_symbols(answered.status)) && !is_named_for_good(image, &functions);
    let relative = answered.relative;
    (NamedFrame { index: frame.index, image, relative, waits, functions }, answered.is_sigtramp(frame))
}

/// Names a frame by the enriched report.
fn by_report<'p, 'a>(
    plan: &'p Plan<'_, 'a>,
    frame: &Frame<'a>,
    planned: &PlannedFrame,
    after_sigtramp: bool,
) -> (NamedFrame<'p, 'a>, bool) {
    let ours = plan.report.our_frame(frame).unwrap_or_default();
    let status = FrameStatus::ALL.into_iter().find(|status| ours.has_status(status.as_str()));
    let status = status.unwrap_or(FrameStatus::InvalidAddress);
    let settled = settle_address(planned, after_sigtramp);
    let place = settled.place.filter(|_| ours.is_in_image());
    let image = place.and_then(|place| plan.images.get(place.image as usize));
    let relative = image.map_or(0, |image| settled.address.wrapping_sub(image.start));
    let symbol = match status {
        FrameStatus::Symbolicated => ours.symbol(),
        FrameStatus::Device | FrameStatus::UnknownImage => frame.symbol_name,
        _ => None,
    };
    let is_from_debug_info = ours.is_from_debug_info();
    let functions = match status {
        FrameStatus::Symbolicated | FrameStatus::Device => FrameFunctions::Report(ours),
        _ => FrameFunctions::Unknown,
    };
    let lacks_dsym = image.is_some_and(|image| is_stripped(plan.report, image)) && !is_from_debug_info;
    let waits = (lacks_dsym || waits_for_symbols(status)) && !is_named_for_good(image, &functions);
    let named = NamedFrame { index: frame.index, image, relative, waits, functions };
    (named, symbol.is_some_and(|symbol| is_sigtramp(symbol.raw())))
}

/// True if the enriched report says that an image has the symbols of a stripped binary, or hidden names.
fn is_stripped(report: &Report<'_>, image: &PlannedImage<'_>) -> bool {
    let mut images = report.ours.iter().flat_map(|ours| &ours.images);
    image.debug_id.is_some() && images.any(|known| known.stripped && known.debug_id == image.debug_id)
}

/// True for a frame with a name in an image without a debug id, as in a text without its list of images: no symbols can be
/// found for it.
fn is_named_for_good(image: Option<&PlannedImage<'_>>, functions: &FrameFunctions<'_, '_>) -> bool {
    image.is_some_and(|image| image.debug_id.is_none()) && !functions.are_unknown()
}

/// True if better symbols may name the frame later.
fn waits_for_symbols(status: FrameStatus) -> bool {
    !matches!(
        status,
        FrameStatus::Symbolicated
            | FrameStatus::MissingSymbol
            | FrameStatus::UnknownImage
            | FrameStatus::InvalidAddress
    )
}
