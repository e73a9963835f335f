//! Which bug a report is about: a fingerprint that is the same for the same bug, whatever the build, the
//! slide, the device, the architecture and the optimisation level.
//!
//! The rule for crashes and exceptions: the innermost function of the app itself in the crashed thread (or in
//! the exception's backtrace) is the culprit; where it is of a header, the function that uses it. Functions of the system and of the runtime do not count, nor do
//! those that only report a failure. An inlined function counts like any other, and a closure, block or lambda
//! counts as the function around it. No address, line or path is part of a fingerprint; only while the
//! culprit's symbols are missing, its debug id and relative address stand in for it, and the group is
//! provisional. `docs/grouping.md` has all rules with examples.

mod names;
mod runtime;
mod title;

use crate::answer::{FrameAnswer, Judged, Name, answer};
use crate::json::{ObjectWriter, key};
use crate::plan::{Plan, PlannedFrame, PlannedImage};
use crate::status::FrameStatus;
use names::normalise;
use runtime::{is_entry, is_runtime};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use unslide_model::words;
use unslide_report::{Backtrace, CrashError, Frame, Text};

/// The version of the rules. Another one gives other fingerprints.
pub const VERSION: u32 = 1;

/// Frames of a backtrace that are looked at, from the innermost on.
const MOST_FRAMES: usize = 256;
/// Functions of the system that count where none of the app does.
const SYSTEM_FUNCTIONS: usize = 3;
/// Functions of the app that count in a hang, from the outermost on: what is called inside of them changes from
/// sample to sample.
const HANG_FUNCTIONS: usize = 2;
/// Extensions of headers of C, C++ and Objective-C.
const HEADERS: [&str; 7] = ["h", "hh", "hpp", "hxx", "inl", "ipp", "tcc"];
/// Functions that count at most.
const MOST_COUNTED: usize = 16;
/// Functions that are looked at, and characters of each.
const MOST_CALLS: usize = 4_096;
const NAME_CHARS: usize = 2_000;
/// Characters of a file's name.
const FILE_CHARS: usize = 100;
/// Bytes that the member takes at most.
pub(crate) const MOST_BYTES: usize = 16 << 10;

/// What a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// 16 bytes: equal for reports of the same bug.
    pub fingerprint: [u8; 16],
    /// What happened.
    pub kind: GroupKind,
    /// True while the symbols of a frame that counts are missing.
    pub provisional: bool,
    /// What a list shows, in one line.
    pub title: String,
    /// The function that is to blame, and its file's name: `Cart.total (Cart.swift)`.
    pub culprit: Option<String>,
    /// The frames that counted.
    pub frames: Vec<CountedFrame>,
}

/// A frame that counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedFrame {
    /// Its position in the backtrace.
    pub frame: usize,
    /// What counted of it: a function's name without types, or a debug id and a relative address.
    pub function: String,
    /// The last part of the source file's path.
    file: Option<String>,
    /// What people read in the place of a debug id while symbols are missing: the image's name and the address.
    label: Option<String>,
}

impl CountedFrame {
    /// True for a function of a header: a container or a helper, about which the function that uses it says
    /// more.
    fn is_of_header(&self) -> bool {
        let extension = self.file.as_deref().and_then(|file| file.rsplit_once('.')).map(|(_, after)| after);
        extension.is_some_and(|extension| HEADERS.contains(&extension))
    }
}

words! {
    /// What happened, as far as it has a rule of its own.
    pub enum GroupKind {
        /// A Mach exception or a signal.
        Crash = "crash",
        /// An Objective-C or C++ exception.
        Exception = "exception",
        /// A recursion without end.
        StackOverflow = "stack_overflow",
        /// A hang.
        Hang = "hang",
        /// The system ended the process for its memory.
        OutOfMemory = "out_of_memory",
        /// The system ended the process for another reason.
        Termination = "termination",
        /// The app has reported it.
        User = "user",
    }
}

impl GroupKind {
    fn of(error: &CrashError) -> GroupKind {
        match error.kind.as_deref().unwrap_or_default() {
            "nsexception" | "cpp_exception" => GroupKind::Exception,
            "hang" | "deadlock" => GroupKind::Hang,
            "user" => GroupKind::User,
            "memory_termination" => GroupKind::OutOfMemory,
            "termination" | "resource_termination" => match error.termination.as_deref() {
                Some("memory_limit" | "memory_pressure") => GroupKind::OutOfMemory,
                _ => GroupKind::Termination,
            },
            _ => GroupKind::Crash,
        }
    }
}

/// A function in the crashed backtrace that may count.
struct Candidate {
    counted: CountedFrame,
    in_app: bool,
    entry: bool,
}

/// The group of a planned report; `None` for one that says neither what happened nor where.
pub(crate) fn group(plan: &Plan<'_, '_>, judged: &[Judged<'_>]) -> Option<Grouping> {
    let error = plan.report.crash_error();
    let backtrace = plan.report.crashed_backtrace();
    if backtrace.is_none() && error == CrashError::default() {
        return None;
    }
    let mut kind = GroupKind::of(&error);
    let frames = backtrace.map(|backtrace| planned(plan, backtrace)).unwrap_or_default();
    let cycle = if kind == GroupKind::Crash && error.is_bad_access() { cycle(&frames) } else { None };
    let looked_at = match &cycle {
        Some(cycle) => {
            kind = GroupKind::StackOverflow;
            &frames[cycle.clone()]
        }
        None => &frames[..frames.len().min(MOST_FRAMES)],
    };
    let mut trap = None;
    let candidates = candidates(plan, judged, looked_at, kind, &mut trap);
    let counted = count(kind, &candidates);
    Some(finish(kind, &error, trap.as_deref(), counted))
}

/// The frames of a backtrace with what is planned for them.
fn planned<'p, 'r, 'a>(
    plan: &'p Plan<'r, 'a>,
    backtrace: &'p Backtrace<'a>,
) -> Vec<(&'p Frame<'a>, &'p PlannedFrame)> {
    let before = plan.report.backtraces.iter().take_while(|other| !std::ptr::eq(*other, backtrace));
    let first: usize = before.map(|other| other.frames.len()).sum();
    backtrace.frames.iter().zip(plan.frames.iter().skip(first)).collect()
}

/// The first turn of a recursion that fills the backtrace: the shortest run of addresses that repeats itself.
fn cycle(frames: &[(&Frame<'_>, &PlannedFrame)]) -> Option<std::ops::Range<usize>> {
    const LONGEST: usize = 32;
    const LEAST_FRAMES: usize = 48;
    // The innermost frames may be of what the last turn has called.
    const LATEST_START: usize = 32;
    let address = |at: usize| frames.get(at).map(|(_, planned)| planned.address);
    for start in 0..LATEST_START {
        for period in 1..=LONGEST {
            let repeats = |at: &usize| address(*at).is_some() && address(*at) == address(at + period);
            let run = (start..).take_while(repeats).count();
            if run >= LEAST_FRAMES.max(2 * period) {
                return Some(start..start + period);
            }
        }
    }
    None
}

/// The functions that may count, from the innermost on; where the first of the app outside of its headers is
/// enough, no more than that.
fn candidates(
    plan: &Plan<'_, '_>,
    judged: &[Judged<'_>],
    frames: &[(&Frame<'_>, &PlannedFrame)],
    kind: GroupKind,
    trap: &mut Option<String>,
) -> Vec<Candidate> {
    let all = matches!(kind, GroupKind::Hang | GroupKind::StackOverflow);
    let (mut candidates, mut after_sigtramp) = (Vec::new(), false);
    for (frame, planned) in frames {
        let answered = answer(plan, judged, frame, planned, after_sigtramp);
        after_sigtramp = answered.is_sigtramp(frame);
        let Some(image) = answered.place.and_then(|place| plan.images.get(place.image as usize)) else {
            continue;
        };
        let before = candidates.len();
        functions(frame, &answered, image, &mut candidates, trap);
        let is_enough = |c: &Candidate| c.in_app && !c.entry && !c.counted.is_of_header();
        let found = !all && candidates[before..].iter().any(is_enough);
        if found || candidates.len() >= MOST_CALLS {
            break;
        }
    }
    candidates
}

/// The functions of one frame that may count.
fn functions(
    frame: &Frame<'_>,
    answered: &FrameAnswer<'_, '_>,
    image: &PlannedImage<'_>,
    candidates: &mut Vec<Candidate>,
    trap: &mut Option<String>,
) {
    let in_app = !image.system;
    let mut push = |function: &str, file: Option<String>| {
        let function: &str =
            function.char_indices().nth(NAME_CHARS).map_or(function, |(end, _)| &function[..end]);
        if let Some(reason) = function.strip_prefix("Swift runtime failure: ") {
            trap.get_or_insert_with(|| reason.to_owned());
        }
        let name = normalise(function);
        if is_runtime(function, &name) {
            return;
        }
        let entry = is_entry(&name);
        let counted = CountedFrame { frame: frame.index, function: name, file, label: None };
        candidates.push(Candidate { counted, in_app, entry });
    };
    match &answered.name {
        Name::Symbols(found) => {
            for call in found.calls().take(MOST_CALLS) {
                let path = call.file.map(Text::decode);
                let file = path.as_deref().and_then(|path| path.rsplit(['/', '\\']).next());
                push(&call.function.decode(), file.map(|file| file.chars().take(FILE_CHARS).collect()));
            }
        }
        Name::Device(device) if image.system => push(&device.name.decode(), None),
        Name::Device(_) | Name::Nobody if in_app && waits_for_symbols(answered.status) => {
            let id = image.debug_id.map_or_else(|| image.name(), |id| id.to_string());
            let function = format!("{id}+{:#x}", answered.relative);
            let image: String = image.name().chars().take(FILE_CHARS).collect();
            let image = if image.is_empty() { "unknown image" } else { &image };
            let label = Some(format!("{image} + {:#x}", answered.relative));
            let counted = CountedFrame { frame: frame.index, function, file: None, label };
            candidates.push(Candidate { counted, in_app, entry: false });
        }
        Name::Device(_) | Name::Nobody => {}
    }
}

/// True where better symbols may name the frame later.
fn waits_for_symbols(status: FrameStatus) -> bool {
    !matches!(
        status,
        FrameStatus::Symbolicated
            | FrameStatus::MissingSymbol
            | FrameStatus::UnknownImage
            | FrameStatus::InvalidAddress
    )
}

/// The functions that count, of those that may.
fn count(kind: GroupKind, candidates: &[Candidate]) -> Vec<CountedFrame> {
    let of_app = |candidate: &&Candidate| candidate.in_app && !candidate.entry;
    let counted = |candidate: &Candidate| candidate.counted.clone();
    let app: Vec<CountedFrame> = match kind {
        GroupKind::OutOfMemory | GroupKind::Termination => return Vec::new(),
        GroupKind::Hang => {
            let mut outermost: Vec<_> = candidates.iter().rev().filter(of_app).map(counted).collect();
            outermost.dedup_by(|a, b| a.function == b.function);
            outermost.truncate(HANG_FUNCTIONS);
            outermost
        }
        GroupKind::StackOverflow => {
            // A recursion has no first function.
            let mut seen = BTreeSet::new();
            let distinct = candidates.iter().filter(of_app).map(counted);
            distinct.filter(|frame| seen.insert(frame.function.clone())).take(MOST_COUNTED).collect()
        }
        GroupKind::Crash | GroupKind::Exception | GroupKind::User => {
            let app: Vec<CountedFrame> = candidates.iter().filter(of_app).map(counted).collect();
            let outside = app.iter().position(|frame| !frame.is_of_header());
            app.into_iter().take(outside.map_or(MOST_COUNTED, |at| (at + 1).min(MOST_COUNTED))).collect()
        }
    };
    if !app.is_empty() {
        return app;
    }
    let system = candidates.iter().filter(|candidate| !candidate.in_app && !candidate.entry);
    let system: Vec<CountedFrame> = system.take(SYSTEM_FUNCTIONS).map(counted).collect();
    if system.is_empty() { candidates.iter().take(1).map(counted).collect() } else { system }
}

fn finish(kind: GroupKind, error: &CrashError, trap: Option<&str>, counted: Vec<CountedFrame>) -> Grouping {
    let mut parts: Vec<&str> = vec![kind.as_str()];
    // The name of an exception is the programmer's; what the processor and the kernel call a crash depends on
    // the architecture.
    match kind {
        GroupKind::Exception | GroupKind::User => parts.push(error.exception.as_deref().unwrap_or_default()),
        GroupKind::Termination => parts.push(error.termination.as_deref().unwrap_or_default()),
        _ => {}
    }
    let mut functions: Vec<&str> = counted.iter().map(|frame| frame.function.as_str()).collect();
    if kind == GroupKind::StackOverflow {
        functions.sort_unstable();
    }
    let masked = title::masked(error.reason.as_deref().unwrap_or_default());
    if functions.is_empty() && !matches!(kind, GroupKind::OutOfMemory | GroupKind::Termination) {
        // Nothing says where: what happened has to do.
        parts.extend(
            [error.exception.as_deref(), error.signal.as_deref(), error.code.as_deref()]
                .into_iter()
                .flatten(),
        );
        parts.push(&masked);
    }
    let mut hash = Sha256::new();
    hash.update(VERSION.to_le_bytes());
    for part in parts.into_iter().chain(functions) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let blamed = counted.iter().find(|frame| !frame.is_of_header()).or(counted.first());
    let culprit = blamed.map(|frame| match (&frame.file, &frame.label) {
        (Some(file), _) => format!("{} ({file})", frame.function),
        (None, label) => label.as_ref().unwrap_or(&frame.function).clone(),
    });
    let place = blamed.map(|frame| match &frame.label {
        Some(label) => format!("{label}, symbols missing"),
        None => frame.function.clone(),
    });
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&digest[..16]);
    Grouping {
        fingerprint,
        kind,
        provisional: counted.iter().any(|frame| frame.label.is_some()),
        title: title::title(kind, error, trap, place.as_deref()),
        culprit,
        frames: counted,
    }
}

/// Writes the value of the report's member `grouping`.
pub(crate) fn write(out: &mut Vec<u8>, grouping: &Grouping) {
    let hex: String = grouping.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut object = ObjectWriter::open(out);
    object.number(key!("version"), VERSION);
    object.escaped(key!("fingerprint"), hex.as_bytes());
    object.escaped(key!("kind"), grouping.kind.as_str().as_bytes());
    object.flag(key!("provisional"), grouping.provisional);
    object.text(key!("title"), &grouping.title);
    if let Some(culprit) = &grouping.culprit {
        object.text(key!("culprit"), culprit);
    }
    if !grouping.frames.is_empty() {
        let out = object.key(key!("frames"));
        for (n, counted) in grouping.frames.iter().enumerate() {
            out.push(if n == 0 { b'[' } else { b',' });
            let mut frame = ObjectWriter::open(out);
            frame.number(key!("frame"), counted.frame);
            frame.text(key!("function"), &counted.function);
            frame.close();
        }
        out.push(b']');
    }
    object.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, file: &str, in_app: bool) -> Candidate {
        let counted =
            CountedFrame { frame: 0, function: name.to_owned(), file: Some(file.to_owned()), label: None };
        Candidate { counted, in_app, entry: false }
    }

    fn counted(candidates: &[Candidate]) -> Vec<String> {
        count(GroupKind::Crash, candidates).into_iter().map(|frame| frame.function).collect()
    }

    #[test]
    fn a_function_of_a_header_counts_with_the_function_that_uses_it() {
        let at = || function("Shelf::at", "shelf.hpp", true);
        let system = function("qsort", "qsort.c", false);
        let used =
            [at(), system, function("first_title", "shop.cpp", true), function("main_view", "a.m", true)];
        assert_eq!(counted(&used), ["Shelf::at", "first_title"]);
        let error = CrashError::default();
        let group =
            |used: &[Candidate]| finish(GroupKind::Crash, &error, None, count(GroupKind::Crash, used));
        let first = group(&used);
        assert_eq!(first.culprit.as_deref(), Some("first_title (shop.cpp)"));
        let other = group(&[at(), function("last_badge", "shop.cpp", true)]);
        assert_ne!(other.fingerprint, first.fingerprint);
        // Nothing else is there.
        assert_eq!(group(&[at()]).culprit.as_deref(), Some("Shelf::at (shelf.hpp)"));
        assert_eq!(counted(&[function("Cart.total", "Cart.swift", true), at()]), ["Cart.total"]);
    }
}
