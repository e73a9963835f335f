//! Why a session ended of which no report tells.
//!
//! The operating system ends an app that uses too much memory without a word to it. So an app notes what it can while
//! it runs, and looks at its next start: where nothing else explains the end, it was out of memory. The rules are those
//! that Facebook published ("Reducing FOOMs in the Facebook iOS app", 2015), with the further exclusions of KSCrash 2.6,
//! whose words for reasons are understood.

use super::EndReason;
use serde::Deserialize;
use utoipa::ToSchema;

/// The share of its memory limit from which on an app that vanished is taken to be out of memory.
const NEAR_LIMIT: f64 = 0.8;

/// What an app found at the start after a session. What is absent is false or not known.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, ToSchema)]
#[serde(default)]
pub struct TerminationEvidence {
    /// `termination_reason` of KSCrash, which wins over the rest: such as `memory_limit`, `hang`, `clean`.
    #[schema(max_length = 100, example = "memory_limit")]
    pub reason: Option<String>,
    /// A debugger was attached, or the app ran in a simulator: such an end is not judged.
    pub development: bool,
    /// The app started for the first time, or was installed again.
    pub first_launch: bool,
    /// The version or the build of the app differs.
    pub app_upgraded: bool,
    /// The app called `exit` or `abort`, or was told that it is terminated.
    pub exit_called: bool,
    /// There is a crash report of the session.
    pub crash_reported: bool,
    /// The version of the operating system differs.
    pub os_upgraded: bool,
    /// The device started later than the session.
    pub rebooted: bool,
    /// The main thread did not answer at the end.
    pub hang: bool,
    /// The battery was nearly empty.
    pub low_battery: bool,
    /// The device's thermal state was critical.
    pub thermal: bool,
    /// The system told of too much use of the processor.
    pub cpu: bool,
    /// The system ended the app for another reason that it told, such as a background task that took too long.
    pub terminated: bool,
    /// Memory of the app at the end, in bytes.
    pub footprint: Option<u64>,
    /// Memory that the app may have, in bytes.
    pub footprint_limit: Option<u64>,
    /// The last memory pressure: `normal`, `warning` or `critical`.
    #[schema(max_length = 100, example = "critical")]
    pub memory_pressure: Option<String>,
}

impl TerminationEvidence {
    /// Why the session ended: the first rule that applies, else lack of memory.
    #[must_use]
    pub fn reason(&self) -> EndReason {
        let told = self.reason.as_deref().and_then(of_kscrash);
        told.or_else(|| self.exclusion()).unwrap_or(match self.is_short_of_memory() {
            true => EndReason::OutOfMemory,
            false => EndReason::Unexplained,
        })
    }

    /// What else explains the end.
    fn exclusion(&self) -> Option<EndReason> {
        let rules = [
            (self.development || self.first_launch, EndReason::Unknown),
            (self.app_upgraded, EndReason::AppUpgrade),
            (self.exit_called, EndReason::Exited),
            (self.crash_reported, EndReason::Crashed),
            (self.os_upgraded, EndReason::OsUpgrade),
            (self.rebooted, EndReason::Reboot),
            (self.hang, EndReason::Hang),
            (self.low_battery, EndReason::LowBattery),
            (self.thermal, EndReason::Thermal),
            (self.cpu, EndReason::Cpu),
            (self.terminated, EndReason::Terminated),
        ];
        rules.into_iter().find(|(applies, _)| *applies).map(|(_, reason)| reason)
    }

    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn is_short_of_memory(&self) -> bool {
        let share = self.footprint.zip(self.footprint_limit).map(|(used, limit)| used as f64 / limit as f64);
        self.memory_pressure.as_deref() == Some("critical") || share.is_some_and(|share| share >= NEAR_LIMIT)
    }
}

/// A reason in the words of KSCrash; `None` for words that say nothing, and those that it may get later.
fn of_kscrash(reason: &str) -> Option<EndReason> {
    Some(match reason {
        "clean" => EndReason::Exited,
        "crash" => EndReason::Crashed,
        "hang" => EndReason::Hang,
        "memory_limit" | "memory_pressure" => EndReason::OutOfMemory,
        "unexplained" => EndReason::Unexplained,
        "app_upgrade" => EndReason::AppUpgrade,
        "os_upgrade" => EndReason::OsUpgrade,
        "reboot" => EndReason::Reboot,
        "low_battery" => EndReason::LowBattery,
        "thermal" => EndReason::Thermal,
        "cpu" => EndReason::Cpu,
        "first_launch" => EndReason::Unknown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(json: &str) -> EndReason {
        serde_json::from_str::<TerminationEvidence>(json).unwrap().reason()
    }

    #[test]
    fn what_nothing_else_explains_is_lack_of_memory() {
        for (json, expected) in [
            ("{}", EndReason::Unexplained),
            (r#"{"memory_pressure":"critical"}"#, EndReason::OutOfMemory),
            (r#"{"memory_pressure":"warning"}"#, EndReason::Unexplained),
            (r#"{"footprint":80,"footprint_limit":100}"#, EndReason::OutOfMemory),
            (r#"{"footprint":79,"footprint_limit":100}"#, EndReason::Unexplained),
            (r#"{"footprint":0,"footprint_limit":0}"#, EndReason::Unexplained),
        ] {
            assert_eq!(reason(json), expected, "{json}");
        }
    }

    #[test]
    fn each_exclusion_has_a_name_and_the_first_one_counts() {
        let names = [
            ("development", EndReason::Unknown),
            ("app_upgraded", EndReason::AppUpgrade),
            ("exit_called", EndReason::Exited),
            ("crash_reported", EndReason::Crashed),
            ("os_upgraded", EndReason::OsUpgrade),
            ("rebooted", EndReason::Reboot),
            ("hang", EndReason::Hang),
            ("low_battery", EndReason::LowBattery),
            ("thermal", EndReason::Thermal),
            ("cpu", EndReason::Cpu),
            ("terminated", EndReason::Terminated),
        ];
        for (place, (name, expected)) in names.iter().enumerate() {
            // With every later one, and with all signs of lack of memory.
            let rest: String = names[place..].iter().map(|(name, _)| format!("\"{name}\":true,")).collect();
            let json = format!("{{{rest}\"memory_pressure\":\"critical\"}}");
            assert_eq!(reason(&json), *expected, "{name}");
        }
    }

    #[test]
    fn the_words_of_kscrash_win_and_unknown_ones_do_not() {
        for (word, expected) in [
            ("memory_limit", EndReason::OutOfMemory),
            ("clean", EndReason::Exited),
            ("unexplained", EndReason::Unexplained),
            ("none", EndReason::Reboot),
            ("a later word", EndReason::Reboot),
        ] {
            assert_eq!(reason(&format!(r#"{{"reason":"{word}","rebooted":true}}"#)), expected, "{word}");
        }
    }
}
