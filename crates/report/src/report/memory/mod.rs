//! Reports that are about memory: an end for lack of it or of a blocked main thread, with what the app sampled before,
//! warnings of an app that goes on, and Jetsam events.
//!
//! Source: what SDKs of this kind send at the start after such an end (`crash_type`, `stack_oom`, `stack_deadlock`) and
//! when a footprint passes a threshold (`singleMemory`, `threshold`, `LaunchTime`).

mod ended;
pub(crate) mod member;

use crate::jetsam::{JetsamEvent, JetsamProcess};
use crate::json::Value;
use crate::report::summary::facts::PartFacts;
use crate::report::{Backtrace, BacktraceOrigin, ErrorKind, Report, ReportPart};
use member::MemoryMember;
use std::fmt;
use time::OffsetDateTime;
use unslide_model::figures::round_mebibytes;

/// Names of the member of an allocation stack that has its frames.
pub(crate) const ALLOCATION_FRAMES: [&str; 3] = ["frames", "stack", "backtrace"];
/// Names of the member that has the bytes which the stack holds.
const ALLOCATION_BYTES: [&str; 3] = ["size", "bytes", "total_size"];
/// Names of the member that has the number of its allocations.
const ALLOCATION_COUNT: [&str; 2] = ["count", "allocations"];
/// What a megabyte of a memory warning is.
const MEGABYTE: f64 = 1_048_576.0;
/// Megabytes from which on a figure is none of a device.
const MOST_MEGABYTES: f64 = 1_048_576.0;
/// The name of the backtrace of KSCrash's own memory warnings.
const KSCRASH_WARNING: &str = "__MEMORY_LEVEL__NON_FATAL__";

/// What a report about memory tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryEventKind {
    /// The system ended the app for lack of memory.
    OutOfMemory,
    /// The app ended while its main thread was blocked.
    BlockedMainThread,
    /// The system ended the app for another reason, such as `disk-space-shortage`.
    Termination,
    /// The app uses much memory, or the device is short of it, and the app goes on.
    Warning,
}

impl MemoryEventKind {
    /// The word for it, in the place of `crash.error.type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MemoryEventKind::OutOfMemory => "out_of_memory",
            MemoryEventKind::BlockedMainThread => "deadlock",
            MemoryEventKind::Termination => "termination",
            MemoryEventKind::Warning => "memory_warning",
        }
    }
}

/// What a report tells of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEvent {
    /// What happened.
    pub kind: MemoryEventKind,
    /// True where the app was on the screen, false where it was in the background.
    pub foreground: Option<bool>,
    /// The word of the kernel for why it ended the app.
    pub kernel_reason: Option<String>,
    /// The highest footprint of the run in bytes; of a Jetsam event that at the end.
    pub footprint: Option<u64>,
    /// The footprint in bytes from which on the app warns.
    pub threshold: Option<u64>,
    /// When the threshold was passed first.
    pub passed_at: Option<OffsetDateTime>,
}

/// What one allocation stack holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationWeight {
    /// Bytes that are live.
    pub bytes: Option<u64>,
    /// Allocations that are live.
    pub count: Option<u64>,
}

impl MemoryEvent {
    /// What the report says, in a sentence; `None` where it says no more than its kind.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let megabytes = |bytes: u64| format!("{} MB", round_mebibytes(bytes));
        let footprint = self.footprint.map(|footprint| format!("the footprint is {}", megabytes(footprint)));
        let threshold = self.threshold.map(|threshold| format!("the threshold {}", megabytes(threshold)));
        let told =
            footprint.map(|footprint| [Some(footprint), threshold].into_iter().flatten().collect::<Vec<_>>());
        match (&self.kernel_reason, told.map(|told| told.join(", "))) {
            (Some(reason), Some(told)) => Some(format!("{reason}: {told}")),
            (Some(reason), None) => Some(reason.clone()),
            (None, told) => told,
        }
    }
}

impl<'a> Report<'a> {
    /// What the report tells of memory; `None` for a report about anything else.
    #[must_use]
    pub fn memory_event(&self) -> Option<&MemoryEvent> {
        self.memory.get_or_init(|| self.find_memory_event()).as_ref()
    }

    fn find_memory_event(&self) -> Option<MemoryEvent> {
        let part = self.parts.get(self.main_part())?;
        if self.jetsam.is_some() {
            return Some(self.jetsam_memory());
        }
        let values = |member| self.memory_values(part, member);
        // Apps keep `user` over their runs: the mark of an earlier end may lie beside a crash.
        let is_marked = !part.is_of_another_event();
        if let Some((kind, foreground)) =
            values(MemoryMember::CrashType).find_map(ended).filter(|_| is_marked)
        {
            let foreground = values(MemoryMember::AppState).find_map(is_foreground).or(foreground);
            return Some(MemoryEvent { foreground, ..MemoryEvent::of(kind) });
        }
        let bytes = |member| values(member).filter_map(Value::decimal).find_map(bytes_of_megabytes);
        let warning = MemoryEvent {
            footprint: bytes(MemoryMember::Footprint),
            threshold: bytes(MemoryMember::Threshold),
            passed_at: values(MemoryMember::PassedAt).filter_map(Value::decimal).find_map(moment),
            ..MemoryEvent::of(MemoryEventKind::Warning)
        };
        // Reports of crashes have footprints, too.
        let is_warning =
            warning.footprint.is_some() && (!part.tells_of_crash() || self.is_reported_by_running_app(part));
        (is_warning || self.is_kscrash_warning(part)).then_some(warning)
    }

    /// True if the app reported something itself and went on, and that is not an error of JavaScript.
    fn is_reported_by_running_app(&self, part: &ReportPart<'a>) -> bool {
        let is_fatal = || PartFacts::of(self, self.main_part()).error(&["is_fatal"]).and_then(Value::boolean);
        part.error_kind() == ErrorKind::User && is_fatal() != Some(true) && self.javascript_error().is_none()
    }

    /// The process of the Jetsam event that the report is about: the one that the sender calls its app's, else the first
    /// that was killed. `None` where the sender names its app by nothing but a bundle identifier, which no process has.
    pub(crate) fn jetsam_process(&self) -> Option<&JetsamProcess> {
        let event = self.jetsam.as_deref()?;
        let facts = PartFacts::of(self, self.main_part());
        let about = facts.part()?;
        if let Some(name) = about.executable.or(about.process_name) {
            return event.process(&name.decode());
        }
        let [app] = facts.system(["CFBundleIdentifier"]);
        let is_named = app.and_then(Value::string).is_some_and(|app| !app.is_empty());
        event.killed().into_iter().next().filter(|_| !is_named)
    }

    fn jetsam_memory(&self) -> MemoryEvent {
        let Some(process) = self.jetsam_process() else {
            return MemoryEvent::of(MemoryEventKind::Warning);
        };
        let kind = match (&process.reason, process.is_out_of_memory()) {
            (None, _) => MemoryEventKind::Warning,
            (Some(_), true) => MemoryEventKind::OutOfMemory,
            (Some(_), false) => MemoryEventKind::Termination,
        };
        MemoryEvent {
            foreground: Some(process.is_foreground()),
            kernel_reason: process.reason.clone(),
            footprint: Some(process.footprint),
            ..MemoryEvent::of(kind)
        }
    }

    /// What the allocation stacks of `stack_oom` hold, in the order of the report.
    #[must_use]
    pub fn allocation_weights(&self) -> Vec<AllocationWeight> {
        let part = self.parts.get(self.main_part());
        let stacks = part.and_then(|part| Some(Value::at(self.input, part.sections.memory.allocations?)));
        stacks.map(Value::items).unwrap_or_default().into_iter().map(AllocationWeight::read).collect()
    }

    /// The index of the part with threads that did not crash, because the report is about memory: they are of an app
    /// that goes on, or of the run after the one that ended.
    #[must_use]
    pub fn part_without_crash(&self) -> Option<usize> {
        self.memory_event().map(|_| self.main_part())
    }

    /// The values of a member in the report object, in `crash` and in `user`.
    fn memory_values(
        &self,
        part: &ReportPart<'a>,
        member: MemoryMember,
    ) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let input = self.input;
        let at = part.sections.memory.members.map(|section| section[member as usize]);
        at.into_iter().flatten().map(move |at| Value::at(input, at))
    }

    /// KSCrash tells of pressure with an error of the type `user` that ends nothing.
    fn is_kscrash_warning(&self, part: &ReportPart<'a>) -> bool {
        let error = part.sections.error.map(|at| Value::at(self.input, at));
        let user = error.and_then(|error| error.get("user_reported"));
        let first = user.and_then(|user| user.get("backtrace")?.items().first().copied());
        first.and_then(Value::text).is_some_and(|text| text.is(KSCRASH_WARNING))
    }
}

impl MemoryEvent {
    fn of(kind: MemoryEventKind) -> MemoryEvent {
        MemoryEvent {
            kind,
            foreground: None,
            kernel_reason: None,
            footprint: None,
            threshold: None,
            passed_at: None,
        }
    }
}

impl AllocationWeight {
    fn read(stack: Value<'_>) -> AllocationWeight {
        let first =
            |names: &[&str]| names.iter().find_map(|name| stack.get(name).and_then(Value::decimal_unsigned));
        AllocationWeight { bytes: first(&ALLOCATION_BYTES), count: first(&ALLOCATION_COUNT) }
    }
}

impl fmt::Display for AllocationWeight {
    /// `14680064 bytes in 112 allocations`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.count) {
            (Some(bytes), Some(count)) => write!(f, "{bytes} bytes in {count} allocations"),
            (Some(bytes), None) => write!(f, "{bytes} bytes"),
            (None, Some(count)) => write!(f, "{count} allocations"),
            (None, None) => f.write_str("allocations of unknown size"),
        }
    }
}

impl Backtrace<'_> {
    /// True for what was sampled before the end, which is not its cause.
    #[must_use]
    pub fn is_sample(&self) -> bool {
        matches!(self.origin, BacktraceOrigin::AllocationStack | BacktraceOrigin::BlockedThread)
    }
}

/// The Jetsam event that a report with this outer part is.
pub(crate) fn jetsam_event(input: &[u8], outer: &ReportPart<'_>) -> Option<Box<JetsamEvent>> {
    let [members, ..] = outer.sections.memory.members;
    members[MemoryMember::Processes as usize]?;
    // Nothing before the report has a brace.
    JetsamEvent::of(Value::at(input, memchr::memchr(b'{', input)?)).map(Box::new)
}

/// What `crash_type` says, and whether the app was on the screen where nothing else tells.
fn ended(crash_type: Value<'_>) -> Option<(MemoryEventKind, Option<bool>)> {
    match crash_type.text()?.decode().as_ref() {
        "foom_crash" => Some((MemoryEventKind::OutOfMemory, Some(true))),
        "boom_crash" => Some((MemoryEventKind::OutOfMemory, Some(false))),
        "deadlock_crash" => Some((MemoryEventKind::BlockedMainThread, None)),
        _ => None,
    }
}

/// Returns what `appState` says in words, or as the number of a `UIApplicationState`.
fn is_foreground(state: Value<'_>) -> Option<bool> {
    if let Some(number) = state.decimal_unsigned() {
        return (number <= 2).then_some(number < 2);
    }
    match state.text()?.decode().trim().to_lowercase().as_str() {
        "foreground" | "active" | "inactive" => Some(true),
        "background" => Some(false),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
fn bytes_of_megabytes(megabytes: f64) -> Option<u64> {
    (0.0..=MOST_MEGABYTES).contains(&megabytes).then_some((megabytes * MEGABYTE).round() as u64)
}

#[expect(clippy::cast_possible_truncation, reason = "seconds that are no time are refused")]
fn moment(seconds: f64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds as i64).ok().filter(|_| seconds > 0.0)
}

#[cfg(test)]
mod tests;
