//! The reason of a session's end that no report covers, from the evidence that apps send.

use serde::Deserialize;
use unslide_model::ended::{BELIEVED_LIMITS, EndRule, EndedRun, RunFacts};

/// Evidence that an app found at the start after a session. An absent field is false or not known.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TerminationEvidence {
    /// `termination_reason` of KSCrash, which wins over the rest: such as `memory_limit`, `hang`, `clean`.
    pub reason: Option<String>,
    /// A debugger was attached, or the app ran in a simulator: such an end is not judged.
    pub development: bool,
    /// The app started for the first time, or was installed again.
    pub first_launch: bool,
    /// The version or the build of the app differs.
    pub app_upgraded: bool,
    /// The app called `exit` or `abort`, or was notified that it is terminated.
    pub exit_called: bool,
    /// There is a crash report of the session.
    pub crash_reported: bool,
    /// The user ended the app (`applicationWillTerminate`).
    pub force_quit: bool,
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
    /// The system reported too much use of the processor.
    pub cpu: bool,
    /// The system ended the app for another reason that it stated, such as a background task that took too
    /// long.
    pub terminated: bool,
    /// Memory of the app at the end, in bytes.
    pub footprint: Option<u64>,
    /// Memory that the app may have, in bytes.
    pub footprint_limit: Option<u64>,
    /// The last memory pressure: `normal`, `warning` or `critical`.
    pub memory_pressure: Option<String>,
    /// The reason of the app's process in a Jetsam log of the session.
    pub jetsam: Option<String>,
}

impl TerminationEvidence {
    /// Judges why the session ended, by [the rules for all runs](unslide_model::ended). `learned_limit` is
    /// that of other runs on the same device model and system version.
    #[must_use]
    pub fn judge(&self, learned_limit: Option<u64>) -> EndedRun {
        let rules = [
            (self.development, EndRule::Development),
            (self.first_launch, EndRule::FirstLaunch),
            (self.app_upgraded, EndRule::AppUpgraded),
            (self.exit_called, EndRule::ExitCalled),
            (self.crash_reported, EndRule::CrashReported),
            (self.force_quit, EndRule::ForceQuit),
            (self.os_upgraded, EndRule::OsUpgraded),
            (self.rebooted, EndRule::Rebooted),
            (self.hang, EndRule::Hang),
            (self.low_battery, EndRule::LowBattery),
            (self.thermal, EndRule::Thermal),
            (self.cpu, EndRule::Cpu),
            (self.terminated, EndRule::Terminated),
        ];
        let applies: Vec<EndRule> =
            rules.into_iter().filter(|(applies, _)| *applies).map(|(_, rule)| rule).collect();
        let facts = RunFacts {
            reason: self.reason.as_deref(),
            applies: &applies,
            foreground: None,
            footprint: self.footprint,
            footprint_limit: self.footprint_limit,
            learned_limit,
            memory_pressure: self.memory_pressure.as_deref(),
            jetsam: self.jetsam.as_deref(),
        };
        facts.evaluate_end()
    }

    /// Returns the bytes of memory that the app may have: the limit that it says, or its footprint if the
    /// kernel killed it for passing its limit. A simulator's limit is not believed, nor one that the
    /// footprint has reached.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u64> {
        let is_reached = |limit: &u64| self.footprint.is_some_and(|footprint| footprint >= *limit);
        let limit = match (self.footprint_limit, self.jetsam.as_deref()) {
            (None, Some("per-process-limit")) => self.footprint,
            (said, _) => said.filter(|limit| !is_reached(limit)),
        };
        limit.filter(|limit| !self.development && BELIEVED_LIMITS.contains(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::ended::EndReason;

    fn reason(json: &str) -> EndReason {
        serde_json::from_str::<TerminationEvidence>(json).unwrap().judge(None).kind
    }

    #[test]
    fn a_limit_is_believed_unless_the_footprint_has_reached_it() {
        for (json, expected) in [
            (r#"{"footprint_limit":2097152}"#, Some(2 << 20)),
            (r#"{"footprint_limit":2097152,"footprint":2097151}"#, Some(2 << 20)),
            (r#"{"footprint_limit":2097152,"footprint":2097152}"#, None),
            (r#"{"footprint_limit":2097152,"development":true}"#, None),
            (r#"{"footprint_limit":1}"#, None),
            (r#"{"footprint":2097152,"jetsam":"per-process-limit"}"#, Some(2 << 20)),
            (r#"{"footprint":2097152,"jetsam":"vm-pageshortage"}"#, None),
            ("{}", None),
        ] {
            let found: TerminationEvidence = serde_json::from_str(json).unwrap();
            assert_eq!(found.memory_limit(), expected, "{json}");
        }
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
            (r#"{"jetsam":"per-process-limit"}"#, EndReason::OutOfMemory),
            (r#"{"jetsam":""}"#, EndReason::Unexplained),
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
            ("force_quit", EndReason::Exited),
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
