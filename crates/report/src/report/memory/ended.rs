//! How and why a run ended, for reports that do not describe a crash.

use super::MemoryEventKind;
use crate::Text;
use crate::json::Value;
use crate::report::summary::facts::PartFacts;
use crate::report::{ErrorKind, Report};
use std::borrow::Cow;
use unslide_model::ended::{BELIEVED_LIMITS, EndRule, EndedRun, RunFacts};

/// Memory figures of a report's run.
#[derive(Default)]
pub(crate) struct RunMemory<'a> {
    pub(crate) footprint: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) pressure: Option<Cow<'a, str>>,
}

impl Report<'_> {
    /// Returns the app's memory limit in bytes: the one that KSCrash writes, or the footprint of a process that was
    /// killed for exceeding its limit. Ignores the limit of a simulator, and a limit that the footprint has reached.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u64> {
        let limit = if self.jetsam.is_some() {
            let process = self.jetsam_process();
            let killed = process.filter(|p| p.reason.as_deref() == Some("per-process-limit"));
            killed.map(|process| process.footprint)
        } else {
            let facts = PartFacts::for_part(self, self.main_part());
            let [model] = facts.system_members(["model"]);
            let is_simulator = model.and_then(Value::as_text).is_some_and(|model| model.is("simulator"));
            let RunMemory { footprint, limit, .. } = RunMemory::from_facts(&facts);
            // For a process without a limit, the remaining memory is 0 and the sum equals the footprint.
            let is_believed =
                |limit: &u64| !is_simulator && footprint.is_none_or(|footprint| footprint < *limit);
            limit.filter(is_believed)
        };
        limit.filter(|limit| BELIEVED_LIMITS.contains(limit))
    }

    /// Returns how and why the run ended, by [the rules for all runs](unslide_model::ended). Returns `None` for a
    /// report of a crash that the process caused itself, and for a report of an event that ended nothing.
    #[must_use]
    pub fn evaluate_end(&self) -> Option<EndedRun> {
        self.ended_by(None)
    }

    /// Works as [`Report::evaluate_end`], with the limit of other runs on this device model and system version, if known.
    #[must_use]
    pub fn ended_by(&self, learned_limit: Option<u64>) -> Option<EndedRun> {
        let facts = PartFacts::for_part(self, self.main_part());
        let event = self.memory_event();
        let error_type = facts.part()?.error_type.map(Text::decode);
        let error = self.crash_error();
        let is_killed = matches!(facts.part()?.error_kind(), ErrorKind::Mach | ErrorKind::Signal);
        let jetsam = error.jetsam_reason().filter(|_| is_killed);
        let rule = match (event.map(|event| event.kind), error_type.as_deref()) {
            (Some(MemoryEventKind::Warning), _) => return None,
            (Some(MemoryEventKind::OutOfMemory), _) | (None, Some("memory_termination")) => {
                EndRule::CrashType
            }
            (Some(MemoryEventKind::BlockedMainThread), _) => EndRule::Hang,
            (Some(MemoryEventKind::Termination), _)
            | (None, Some("termination" | "resource_termination")) => EndRule::Exclusion,
            (None, _) if is_killed && error.is_fatal_hang() => EndRule::Hang,
            (None, _) if is_killed && error.is_out_of_memory() => EndRule::CrashType,
            (None, _) if jetsam.is_some() => EndRule::Exclusion,
            (None, _) => return None,
        };
        let reason = facts.error_member(&["termination_reason"]).and_then(Value::decode_string);
        let memory = RunMemory::from_facts(&facts);
        let footprint = event.and_then(|event| event.footprint);
        let facts = RunFacts {
            reason: reason.as_deref(),
            applies: &[rule],
            foreground: event.and_then(|event| event.foreground).or_else(|| is_foreground(&facts)),
            footprint: footprint.or(memory.footprint),
            footprint_limit: memory.limit,
            learned_limit,
            memory_pressure: memory.pressure.as_deref(),
            jetsam: event.and_then(|event| event.kernel_reason.as_deref()).or(jetsam),
        };
        Some(facts.evaluate_end())
    }
}

impl<'a> RunMemory<'a> {
    /// Reads KSCrash's figures in `system.app_memory` or, before 3.9, beside the error, or else in the snapshot of the
    /// ended process.
    pub(crate) fn from_facts(facts: &PartFacts<'_, 'a>) -> RunMemory<'a> {
        let [app_memory] = facts.system_members(["app_memory"]);
        let error = facts.error_member(&["memory_termination"]);
        let mut memory = RunMemory::default();
        let mut levels = [None; 2];
        for value in [error, app_memory].into_iter().flatten() {
            let [footprint, limit, remaining, pressure, level] = value.find_members([
                "memory_footprint",
                "memory_limit",
                "memory_remaining",
                "memory_pressure",
                "memory_level",
            ]);
            memory.footprint = memory.footprint.or(footprint.and_then(Value::decimal_unsigned));
            let sum = memory.footprint.zip(remaining.and_then(Value::decimal_unsigned));
            let sum = sum.and_then(|(footprint, remaining)| footprint.checked_add(remaining));
            memory.limit = memory.limit.or(limit.and_then(Value::decimal_unsigned)).or(sum);
            for (to, value) in levels.iter_mut().zip([pressure, level]) {
                *to = to.or(value.and_then(Value::as_text));
            }
        }
        if let Some(corpse) = facts.corpse().filter(|_| memory.footprint.is_none()) {
            let read = |path: &[&str]| corpse.find_path(path).and_then(Value::as_unsigned);
            memory.footprint = read(&["rusage", "physFootprint"]);
            let left = read(&["vmInfo", "limitBytesRemaining"]);
            let sum = memory.footprint.zip(left).and_then(|(footprint, left)| footprint.checked_add(left));
            memory.limit = memory.limit.or(sum);
        }
        let [pressure, level] = levels;
        // The level is the ratio of footprint to limit, in words.
        let level = level.filter(|_| memory.footprint.is_none() || memory.limit.is_none());
        let texts = || [pressure, level].into_iter().flatten();
        let worst = texts().find(|text| text.is("critical") || text.is("terminal"));
        memory.pressure = worst.or_else(|| texts().next()).map(Text::decode);
        memory
    }
}

/// Returns whether the app was in the foreground, from KSCrash's data or the role in the snapshot of the ended process.
pub(crate) fn is_foreground(facts: &PartFacts<'_, '_>) -> Option<bool> {
    let [stats] = facts.system_members(["application_stats"]);
    let told = stats.and_then(|stats| stats.get("application_in_foreground")?.as_boolean());
    told.or_else(|| {
        let role = facts.corpse()?.get("taskRole")?.as_text()?;
        let roles = [("FOREGROUND_APPLICATION", true), ("BACKGROUND_APPLICATION", false)];
        roles.into_iter().find_map(|(word, foreground)| role.is(word).then_some(foreground))
    })
}

#[cfg(test)]
mod tests {
    use crate::{ReadLimits, Report};

    fn ended(json: &str) -> Option<String> {
        let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
        report.evaluate_end().map(|ended| ended.to_string())
    }

    #[test]
    fn each_kind_of_report_has_its_rule_and_evidence() {
        for (json, expected) in [
            (
                r#"{"crash_type":"foom_crash"}"#,
                "out of memory in the foreground (rule: crash type; confidence: low)",
            ),
            (
                r#"{"crash_type":"foom_crash","system":{"app_memory":{"memory_footprint":90,"memory_remaining":10,
                "memory_pressure":"urgent","memory_level":"critical"}}}"#,
                "out of memory in the foreground (rule: crash type; confidence: medium; footprint: 90 % of the limit)",
            ),
            (
                r#"{"crash_type":"foom_crash","system":{"app_memory":{"memory_footprint":90,"memory_limit":100,
                "memory_pressure":"critical","memory_level":"critical"}}}"#,
                "out of memory in the foreground (rule: crash type; confidence: high; footprint: 90 % of the limit; \
                 memory pressure: critical)",
            ),
            (
                r#"{"crash_type":"foom_crash","system":{"app_memory":{"memory_pressure":"urgent",
                "memory_level":"critical"}}}"#,
                "out of memory in the foreground (rule: crash type; confidence: medium; memory pressure: critical)",
            ),
            (r#"{"crash_type":"deadlock_crash"}"#, "hang (rule: hang; confidence: high)"),
            (
                r#"{"crash":{"error":{"type":"termination","termination_reason":"memory_limit"}},
                "system":{"application_stats":{"application_in_foreground":false}}}"#,
                "out of memory in the background (rule: termination reason; confidence: medium)",
            ),
            (
                r#"{"crash":{"error":{"type":"termination","termination_reason":"low_battery"}}}"#,
                "low battery (rule: termination reason; confidence: high)",
            ),
            (
                r#"{"crash":{"error":{"type":"memory_termination","memory_termination":{"memory_pressure":"terminal"}}}}"#,
                "out of memory (rule: crash type; confidence: medium; memory pressure: terminal)",
            ),
            (
                r#"{"crash":{"error":{"type":"mach","exit_reason":{"code":2343432205}}}}"#,
                "hang (rule: hang; confidence: high)",
            ),
            (
                r#"{"crash":{"error":{"type":"mach","exit_reason":{"code":7,"namespace":1}}}}"#,
                "out of memory (rule: jetsam; confidence: high; jetsam: per-process-limit)",
            ),
            (
                r#"{"crash":{"error":{"type":"signal","exit_reason":{"code":9,"namespace":1}}}}"#,
                "terminated (rule: jetsam; confidence: high)",
            ),
            (
                r#"{"crash":{"error":{"type":"mach","termination_reason":"memory_limit"}}}"#,
                "out of memory (rule: termination reason; confidence: medium)",
            ),
            (
                r#"{"memoryStatus":{"pageSize":1},"processes":[{"name":"a","states":["frontmost"],"reason":"vm-pageshortage"}]}"#,
                "out of memory in the foreground (rule: jetsam; confidence: high; jetsam: vm-pageshortage)",
            ),
            (
                r#"{"memoryStatus":{"pageSize":1},"processes":[{"name":"a","reason":"idle-exit"}]}"#,
                "terminated in the background (rule: jetsam; confidence: high)",
            ),
        ] {
            assert_eq!(ended(json).as_deref(), Some(expected), "{json}");
        }
        for other in [
            r#"{"crash":{"error":{"type":"mach"}}}"#,
            r#"{"crash":{"error":{"type":"hang","exit_reason":{"code":2343432205}}}}"#,
            r#"{"singleMemory":"1"}"#,
            "{}",
        ] {
            assert_eq!(ended(other), None, "{other}");
        }
    }

    #[test]
    fn a_learned_limit_counts_where_the_report_says_none() {
        let by = |memory: &str| {
            let json = format!(r#"{{"crash_type":"foom_crash","system":{{"app_memory":{memory}}}}}"#);
            let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
            report.ended_by(Some(4 << 20)).map(|ended| ended.to_string()).unwrap_or_default()
        };
        let learned = by(r#"{"memory_footprint":4194304}"#);
        assert!(learned.ends_with("confidence: medium; learned limit: 100 % of 4 MiB)"), "{learned}");
        let own = by(r#"{"memory_footprint":4194304,"memory_limit":8388608}"#);
        assert!(own.ends_with("(rule: crash type; confidence: low)"), "{own}");
    }

    #[test]
    fn a_limit_is_what_the_device_says_of_it() {
        let limit =
            |json: &str| Report::read(json.as_bytes(), &ReadLimits::default()).unwrap().memory_limit();
        let crash = |memory: &str| {
            limit(&format!(r#"{{"crash":{{"error":{{"type":"mach"}}}},"system":{{"app_memory":{memory}}}}}"#))
        };
        assert_eq!(crash(r#"{"memory_footprint":1048576,"memory_remaining":3145728}"#), Some(4 << 20));
        assert_eq!(crash(r#"{"memory_limit":2097152}"#), Some(2 << 20));
        assert_eq!(crash(r#"{"memory_footprint":1048576}"#), None);
        assert_eq!(crash(r#"{"memory_limit":1}"#), None);
        assert_eq!(crash(r#"{"memory_footprint":2097152,"memory_remaining":0}"#), None, "it has no limit");
        let simulator = r#"{"crash":{"error":{"type":"mach"}},"system":{"model":"simulator","app_memory":{"memory_limit":2097152}}}"#;
        assert_eq!(limit(simulator), None);
        let jetsam = |reason: &str| {
            limit(&format!(
                r#"{{"memoryStatus":{{"pageSize":16384}},"processes":[{{"name":"a","rpages":128,"reason":"{reason}"}}]}}"#
            ))
        };
        assert_eq!(jetsam("per-process-limit"), Some(2 << 20));
        assert_eq!(
            jetsam("vm-pageshortage"),
            None,
            "the device had no memory left, whatever the app's limit"
        );
    }
}
