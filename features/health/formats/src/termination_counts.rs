//! Reads how often an app ended by each cause, as MetricKit counts it.

use super::app_end::{AppEndCause, AppEnds};
use super::samples::PayloadBuilder;
use super::sent_item::whole_count;
use serde_json::Value;

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
