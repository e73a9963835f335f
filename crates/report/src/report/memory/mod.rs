//! Reports about memory: ends for lack of memory or with a blocked main thread, including samples from before the end;
//! memory warnings of an app that continues; and Jetsam events.
//!
//! Source: SDKs of this kind send such a report at the start after such an end (`crash_type`, `stack_oom`,
//! `stack_deadlock`) and when a footprint exceeds a threshold (`singleMemory`, `threshold`, `LaunchTime`).

pub(crate) mod ended;
pub(crate) mod member;

use crate::jetsam::{JetsamEvent, JetsamProcess};
use crate::json::Value;
use crate::report::summary::facts::PartFacts;
use crate::report::{Backtrace, BacktraceOrigin, ErrorKind, Report, ReportPart};
use member::MemoryMember;
use std::fmt;
use time::OffsetDateTime;
use unslide_model::figures::round_mebibytes;

/// Names of the member with the frames of an allocation stack.
pub(crate) const ALLOCATION_FRAMES: [&str; 3] = ["frames", "stack", "backtrace"];
/// Names of the member with the live bytes of an allocation stack.
const ALLOCATION_BYTES: [&str; 3] = ["size", "bytes", "total_size"];
/// Names of the member with the number of its allocations.
const ALLOCATION_COUNT: [&str; 2] = ["count", "allocations"];
/// Bytes in a megabyte of a memory warning.
const MEGABYTE: f64 = 1_048_576.0;
/// Megabytes from which a figure is implausible for a device.
const MOST_MEGABYTES: f64 = 1_048_576.0;
/// The name of the backtrace of KSCrash's own memory warnings.
const KSCRASH_WARNING: &str = "__MEMORY_LEVEL__NON_FATAL__";

/// The kind of event in a report about memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryEventKind {
    /// The system ended the app for lack of memory.
    OutOfMemory,
    /// The app ended while its main thread was blocked.
    BlockedMainThread,
    /// The system ended the app for another reason, such as `disk-space-shortage`.
    Termination,
    /// The app uses much memory, or the device is short of memory. The app continues.
    Warning,
}

impl MemoryEventKind {
    /// Returns the word for `crash.error.type`.
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

/// The facts about memory in a report.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEvent {
    /// The kind of event.
    pub kind: MemoryEventKind,
    /// True if the app was in the foreground, false if it was in the background.
    pub foreground: Option<bool>,
    /// The kernel's word for the reason why it ended the app.
    pub kernel_reason: Option<String>,
    /// The highest footprint of the run in bytes. For a Jetsam event, the footprint at the end.
    pub footprint: Option<u64>,
    /// The footprint in bytes above which the app warns.
    pub threshold: Option<u64>,
    /// The time when the footprint first exceeded the threshold.
    pub passed_at: Option<OffsetDateTime>,
}

/// Live memory of one allocation stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationWeight {
    /// Live bytes.
    pub bytes: Option<u64>,
    /// Live allocations.
    pub count: Option<u64>,
}

impl MemoryEvent {
    /// Returns the report's statement as a sentence. Returns `None` if the report says no more than its kind.
    #[must_use]
    pub fn describe_reason(&self) -> Option<String> {
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
    /// Returns the report's facts about memory, or `None` for a report about anything else.
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
        // Apps keep `user` across their runs: a marker of an earlier end may lie beside a crash.
        let is_marked = !part.is_of_another_event();
        if let Some((kind, foreground)) =
            values(MemoryMember::CrashType).find_map(parse_crash_type).filter(|_| is_marked)
        {
            let foreground = values(MemoryMember::AppState).find_map(is_foreground).or(foreground);
            return Some(MemoryEvent { foreground, ..MemoryEvent::from_kind(kind) });
        }
        let bytes = |member| values(member).filter_map(Value::as_decimal).find_map(bytes_of_megabytes);
        let warning = MemoryEvent {
            footprint: bytes(MemoryMember::Footprint),
            threshold: bytes(MemoryMember::Threshold),
            passed_at: values(MemoryMember::PassedAt).filter_map(Value::as_decimal).find_map(to_timestamp),
            ..MemoryEvent::from_kind(MemoryEventKind::Warning)
        };
        // Crash reports have footprints, too.
        let is_warning =
            warning.footprint.is_some() && (!part.tells_of_crash() || self.is_reported_by_running_app(part));
        (is_warning || self.is_kscrash_warning(part)).then_some(warning)
    }

    /// Returns true if the app reported something itself and continued, except for a JavaScript error.
    fn is_reported_by_running_app(&self, part: &ReportPart<'a>) -> bool {
        let is_fatal = || {
            PartFacts::for_part(self, self.main_part())
                .error_member(&["is_fatal"])
                .and_then(Value::as_boolean)
        };
        part.error_kind() == ErrorKind::User && is_fatal() != Some(true) && self.javascript_error().is_none()
    }

    /// Returns the process of the Jetsam event that the report is about: the sender's app, or else the first process
    /// that was killed. Returns `None` if the sender names its app only by a bundle identifier: processes have none.
    pub(crate) fn jetsam_process(&self) -> Option<&JetsamProcess> {
        let event = self.jetsam.as_deref()?;
        let facts = PartFacts::for_part(self, self.main_part());
        let about = facts.part()?;
        if let Some(name) = about.executable.or(about.process_name) {
            return event.find_process(&name.decode());
        }
        let [app] = facts.system_members(["CFBundleIdentifier"]);
        let is_named = app.and_then(Value::decode_string).is_some_and(|app| !app.is_empty());
        event.killed_processes().into_iter().next().filter(|_| !is_named)
    }

    fn jetsam_memory(&self) -> MemoryEvent {
        let Some(process) = self.jetsam_process() else {
            return MemoryEvent::from_kind(MemoryEventKind::Warning);
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
            ..MemoryEvent::from_kind(kind)
        }
    }

    /// Returns the live memory of the allocation stacks in `stack_oom`, in the order of the report.
    #[must_use]
    pub fn allocation_weights(&self) -> Vec<AllocationWeight> {
        let part = self.parts.get(self.main_part());
        let stacks =
            part.and_then(|part| Some(Value::from_offset(self.input, part.sections.memory.allocations?)));
        stacks.map(Value::items).unwrap_or_default().into_iter().map(AllocationWeight::from_value).collect()
    }

    /// Returns the index of the main part if the report is about memory: none of its threads crashed. They belong to an
    /// app that continues, or to the run after the one that ended.
    #[must_use]
    pub fn part_without_crash(&self) -> Option<usize> {
        self.memory_event().map(|_| self.main_part())
    }

    /// Returns the values of a member in the report object, in `crash` and in `user`.
    fn memory_values(
        &self,
        part: &ReportPart<'a>,
        member: MemoryMember,
    ) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let input = self.input;
        let at = part.sections.memory.members.map(|section| section[member as usize]);
        at.into_iter().flatten().map(move |at| Value::from_offset(input, at))
    }

    /// Returns true for KSCrash's memory pressure reports: they have an error of the type `user` that ends nothing.
    fn is_kscrash_warning(&self, part: &ReportPart<'a>) -> bool {
        let error = part.sections.error.map(|at| Value::from_offset(self.input, at));
        let user = error.and_then(|error| error.get("user_reported"));
        let first = user.and_then(|user| user.get("backtrace")?.items().first().copied());
        first.and_then(Value::as_text).is_some_and(|text| text.is(KSCRASH_WARNING))
    }
}

impl MemoryEvent {
    fn from_kind(kind: MemoryEventKind) -> MemoryEvent {
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
    fn from_value(stack: Value<'_>) -> AllocationWeight {
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
    /// Returns true for samples from before the end. They do not show its cause.
    #[must_use]
    pub fn is_sample(&self) -> bool {
        matches!(self.origin, BacktraceOrigin::AllocationStack | BacktraceOrigin::BlockedThread)
    }
}

/// Returns the Jetsam event if the report with this outer part is one.
pub(crate) fn jetsam_event(input: &[u8], outer: &ReportPart<'_>) -> Option<Box<JetsamEvent>> {
    let [members, ..] = outer.sections.memory.members;
    members[MemoryMember::Processes as usize]?;
    // There is no brace before the report.
    JetsamEvent::from_value(Value::from_offset(input, memchr::memchr(b'{', input)?)).map(Box::new)
}

/// Returns the meaning of `crash_type`, and whether the app was in the foreground, used if no other member says so.
fn parse_crash_type(crash_type: Value<'_>) -> Option<(MemoryEventKind, Option<bool>)> {
    match crash_type.as_text()?.decode().as_ref() {
        "foom_crash" => Some((MemoryEventKind::OutOfMemory, Some(true))),
        "boom_crash" => Some((MemoryEventKind::OutOfMemory, Some(false))),
        "deadlock_crash" => Some((MemoryEventKind::BlockedMainThread, None)),
        _ => None,
    }
}

/// Reads `appState`: a word, or the number of a `UIApplicationState`.
fn is_foreground(state: Value<'_>) -> Option<bool> {
    if let Some(number) = state.decimal_unsigned() {
        return (number <= 2).then_some(number < 2);
    }
    match state.as_text()?.decode().trim().to_lowercase().as_str() {
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
fn to_timestamp(seconds: f64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds as i64).ok().filter(|_| seconds > 0.0)
}

#[cfg(test)]
mod tests;
