//! Ends of an app by cause, as MetricKit counts them in a period.

use super::samples::PayloadBuilder;
use super::sent_item::whole_count;
use serde_json::Value;

unslide_model::words! {
    /// The cause of an end, by the names of MetricKit since iOS 27.
    #[derive(PartialOrd, Ord)]
    pub enum AppEndCause {
        Normal = "normal",
        /// The app was over its memory limit.
        MemoryLimit = "memory_limit",
        /// The system needed memory for others.
        SystemPressure = "system_pressure",
        BadAccess = "bad_access",
        Abnormal = "abnormal",
        IllegalInstruction = "illegal_instruction",
        Watchdog = "watchdog",
        HighCpu = "high_cpu",
        /// The app held a file locked while it was suspended.
        FileLock = "file_lock",
        /// A background task took too long.
        TaskTimeout = "task_timeout",
    }
}

impl AppEndCause {
    /// Returns true for an end for lack of memory.
    #[must_use]
    pub fn is_memory(self) -> bool {
        matches!(self, AppEndCause::MemoryLimit | AppEndCause::SystemPressure)
    }
}

/// Ends of one cause in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppEnds {
    /// True if the app was on the screen.
    pub foreground: bool,
    pub cause: AppEndCause,
    pub count: u32,
}

/// The members of MetricKit since iOS 27, without `TerminationCount`, and of older systems, without `cumulative` and `Count`.
const CAUSES: [(AppEndCause, &str, &str); 10] = [
    (AppEndCause::Normal, "normal", "NormalAppExit"),
    (AppEndCause::MemoryLimit, "memoryLimit", "MemoryResourceLimitExit"),
    (AppEndCause::SystemPressure, "systemPressure", "MemoryPressureExit"),
    (AppEndCause::BadAccess, "badAccess", "BadAccessExit"),
    (AppEndCause::Abnormal, "abnormal", "AbnormalExit"),
    (AppEndCause::IllegalInstruction, "illegalInstruction", "IllegalInstructionExit"),
    (AppEndCause::Watchdog, "watchdog", "AppWatchdogExit"),
    (AppEndCause::HighCpu, "highCPU", "CPUResourceLimitExit"),
    (AppEndCause::FileLock, "fileLock", "SuspendedWithLockedFileExit"),
    (AppEndCause::TaskTimeout, "taskTimeout", "BackgroundTaskAssertionTimeoutExit"),
];

/// Reads the counts of one object of either form. A count that is not understood is named.
pub(super) fn read_ends(object: &Value, foreground: bool, name: &str, into: &mut PayloadBuilder) {
    for (cause, new, old) in CAUSES {
        let members = [format!("{new}TerminationCount"), format!("cumulative{old}Count")];
        let Some((member, value)) = members.iter().find_map(|member| Some((member, object.get(member)?)))
        else {
            continue;
        };
        match whole_count(value) {
            Some(0) => {}
            Some(count) => into.ends.push(AppEnds { foreground, cause, count }),
            None => into.unread.record(&format!("{name}.{member}")),
        }
    }
}
