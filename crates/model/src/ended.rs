//! Why a run of an app ended without a crash report: one table of rules, and the confidence of the answer.
//!
//! The operating system ends an app that uses too much memory without any notice. So the app records its state while
//! it runs, and checks it at its next start: if nothing else explains the end, the app ran out of memory. The rules are
//! those that Facebook published ("Reducing FOOMs in the Facebook iOS app", 2015), with the further exclusions of
//! KSCrash 2.6. KSCrash's names of reasons are accepted.

use crate::figures::{round_mebibytes, round_share};
use std::fmt;

/// Percent of its memory limit from which an app that vanished counts as out of memory.
const NEAR_LIMIT: u64 = 80;
/// Plausible memory limits, in bytes.
pub const BELIEVED_LIMITS: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

crate::words! {
    /// How a run ended.
    pub enum EndReason {
        /// The app exited, or the user ended it.
        Exited = "exited",
        /// The app crashed.
        Crashed = "crashed",
        /// The app did not answer.
        Hang = "hang",
        /// The system ended the app for lack of memory.
        OutOfMemory = "out_of_memory",
        /// Lack of memory is the only explanation left.
        Unexplained = "unexplained",
        /// The app was updated.
        AppUpgrade = "app_upgrade",
        /// The operating system was updated.
        OsUpgrade = "os_upgrade",
        /// The device was restarted.
        Reboot = "reboot",
        /// The battery was empty.
        LowBattery = "low_battery",
        /// The device was too hot.
        Thermal = "thermal",
        /// The app used more CPU time than the system allows.
        Cpu = "cpu",
        /// The system ended the app for another reason.
        Terminated = "terminated",
        /// The reason is not known, or the rules do not apply.
        Unknown = "unknown",
    }
}

crate::words! {
    /// The rule that decided: the first one that applies, in this order.
    pub enum EndRule {
        /// KSCrash's own `termination_reason`.
        TerminationReason = "termination_reason",
        /// A debugger was attached, or the app ran in a simulator.
        Development = "development",
        /// There was no earlier run.
        FirstLaunch = "first_launch",
        /// The version or the build of the app differs.
        AppUpgraded = "app_upgraded",
        /// The app called `exit` or `abort`.
        ExitCalled = "exit_called",
        /// There is a crash report of the run.
        CrashReported = "crash_reported",
        /// The user ended the app.
        ForceQuit = "force_quit",
        /// The version of the operating system differs.
        OsUpgraded = "os_upgraded",
        /// The device booted after the run began.
        Rebooted = "rebooted",
        /// The main thread did not answer at the end.
        Hang = "hang",
        /// The battery was nearly empty.
        LowBattery = "low_battery",
        /// The device's thermal state was critical.
        Thermal = "thermal",
        /// The system reported that the app used too much CPU time.
        Cpu = "cpu",
        /// The system ended the app and gave the reason.
        Terminated = "terminated",
        /// A Jetsam log lists the app among the processes that the kernel killed.
        Jetsam = "jetsam",
        /// The app's own rules found that it was out of memory.
        CrashType = "crash_type",
        /// Nothing else explains the end.
        Exclusion = "exclusion",
        /// A memory exception of MetricKit is about the run. No facts of the run itself lead to this rule.
        MemoryException = "memory_exception",
    }
}

crate::words! {
    /// How certain an answer is.
    pub enum Confidence {
        /// No fact supports the answer: there is just no other explanation.
        Low = "low",
        /// One fact supports the answer.
        Medium = "medium",
        /// Several facts support the answer, or one that leaves no doubt.
        High = "high",
    }
}

crate::words! {
    /// A fact that indicates lack of memory.
    pub enum EvidenceKind {
        /// The footprint was near the limit.
        Footprint = "footprint",
        /// The footprint was near the limit that other runs of the app had on this device model and system version.
        LearnedLimit = "learned_limit",
        /// The last memory pressure was critical.
        MemoryPressure = "memory_pressure",
        /// A Jetsam log says that the kernel killed the app.
        Jetsam = "jetsam",
        /// MetricKit reported a memory exception.
        MemoryException = "memory_exception",
    }
}

/// Known facts about the end of a run. An absent fact is false or not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunFacts<'t> {
    /// `termination_reason` of KSCrash.
    pub reason: Option<&'t str>,
    /// The rules that apply on their own. [`EndRule::TerminationReason`], [`EndRule::Jetsam`],
    /// [`EndRule::Exclusion`] and [`EndRule::MemoryException`] have no effect here.
    pub applies: &'t [EndRule],
    /// True if the app was in the foreground, false if it was in the background.
    pub foreground: Option<bool>,
    /// Memory of the app at the end, in bytes.
    pub footprint: Option<u64>,
    /// Memory that the app may use, in bytes.
    pub footprint_limit: Option<u64>,
    /// Limit of other runs on this device model and system version, in bytes. Used if the run has no limit of its own.
    pub learned_limit: Option<u64>,
    /// The last memory pressure.
    pub memory_pressure: Option<&'t str>,
    /// The reason in a Jetsam log of the run.
    pub jetsam: Option<&'t str>,
}

/// A fact and its value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndEvidence {
    /// The kind of the fact.
    pub kind: EvidenceKind,
    /// The value, such as `92 % of the limit`.
    pub value: String,
}

/// How a run ended, and the evidence for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// The reason of the end.
    pub kind: EndReason,
    /// The rule that decided.
    pub rule: EndRule,
    /// How certain the reason is.
    pub confidence: Confidence,
    /// True if the app was in the foreground.
    pub foreground: Option<bool>,
    /// Facts that indicate lack of memory. Empty for any other reason.
    pub evidence: Vec<EndEvidence>,
    /// The footprint, if it was far below the learned limit. Does not lower the confidence: today's limit may differ.
    pub against: Option<EndEvidence>,
}

/// The rules that exclude or indicate lack of memory, in their order.
const RULES: [(EndRule, EndReason); 14] = [
    (EndRule::Development, EndReason::Unknown),
    (EndRule::FirstLaunch, EndReason::Unknown),
    (EndRule::AppUpgraded, EndReason::AppUpgrade),
    (EndRule::ExitCalled, EndReason::Exited),
    (EndRule::CrashReported, EndReason::Crashed),
    (EndRule::ForceQuit, EndReason::Exited),
    (EndRule::OsUpgraded, EndReason::OsUpgrade),
    (EndRule::Rebooted, EndReason::Reboot),
    (EndRule::Hang, EndReason::Hang),
    (EndRule::LowBattery, EndReason::LowBattery),
    (EndRule::Thermal, EndReason::Thermal),
    (EndRule::Cpu, EndReason::Cpu),
    (EndRule::Terminated, EndReason::Terminated),
    (EndRule::CrashType, EndReason::OutOfMemory),
];

impl RunFacts<'_> {
    /// Returns how the run ended: by the first rule that applies, or else by lack of memory.
    #[must_use]
    pub fn evaluate_end(&self) -> EndedRun {
        let evidence = self.collect_evidence();
        let (kind, rule) = self.find_rule(&evidence);
        let is_memory = matches!(kind, EndReason::OutOfMemory | EndReason::Unexplained);
        let confidence = match (rule, evidence.len()) {
            (EndRule::Jetsam, _) => Confidence::High,
            _ if !is_memory => Confidence::High,
            // KSCrash decided from the same facts.
            (EndRule::TerminationReason, 0) if kind == EndReason::OutOfMemory => Confidence::Medium,
            (EndRule::TerminationReason, _) if kind == EndReason::OutOfMemory => Confidence::High,
            (_, 0) => Confidence::Low,
            (_, 1) => Confidence::Medium,
            _ => Confidence::High,
        };
        let evidence = if is_memory { evidence } else { Vec::new() };
        let against = self.learned_share().filter(|percent| is_memory && *percent < NEAR_LIMIT);
        let against = against.map(|percent| self.learned_evidence(percent));
        EndedRun { kind, rule, confidence, foreground: self.foreground, evidence, against }
    }

    fn find_rule(&self, evidence: &[EndEvidence]) -> (EndReason, EndRule) {
        if let Some(kind) = self.reason.and_then(reason_from_kscrash) {
            return (kind, EndRule::TerminationReason);
        }
        let mut applying = RULES.iter().filter(|(rule, _)| self.applies.contains(rule));
        let first = applying.next();
        match first {
            Some((rule, kind)) if *rule != EndRule::CrashType => (*kind, *rule),
            _ if self.jetsam_reason().is_some_and(is_memory_reason) => {
                (EndReason::OutOfMemory, EndRule::Jetsam)
            }
            _ if self.jetsam_reason().is_some() => (EndReason::Terminated, EndRule::Jetsam),
            Some((rule, kind)) => (*kind, *rule),
            None if evidence.is_empty() => (EndReason::Unexplained, EndRule::Exclusion),
            None => (EndReason::OutOfMemory, EndRule::Exclusion),
        }
    }

    /// Returns the reason in the Jetsam log, if it has one.
    fn jetsam_reason(&self) -> Option<&str> {
        self.jetsam.filter(|reason| !reason.trim().is_empty())
    }

    /// Returns the footprint in percent of a limit, rounded, but not up to [`NEAR_LIMIT`].
    fn footprint_share(&self, limit: Option<u64>) -> Option<u64> {
        let (used, limit) = self.footprint.zip(limit.filter(|limit| *limit > 0))?;
        let is_near = u128::from(used) * 100 >= u128::from(limit) * u128::from(NEAR_LIMIT);
        let percent = round_share(used, limit, 100);
        Some(if is_near { percent } else { percent.min(NEAR_LIMIT - 1) })
    }

    /// Returns the footprint in percent of the learned limit, if the run has no limit of its own.
    fn learned_share(&self) -> Option<u64> {
        self.footprint_share(
            self.learned_limit.filter(|_| self.footprint_limit.is_none_or(|limit| limit == 0)),
        )
    }

    fn learned_evidence(&self, percent: u64) -> EndEvidence {
        let limit = round_mebibytes(self.learned_limit.unwrap_or(0));
        EndEvidence { kind: EvidenceKind::LearnedLimit, value: format!("{percent} % of {limit} MiB") }
    }

    fn collect_evidence(&self) -> Vec<EndEvidence> {
        let near = self.footprint_share(self.footprint_limit).filter(|percent| *percent >= NEAR_LIMIT);
        let near_learned = self.learned_share().filter(|percent| *percent >= NEAR_LIMIT);
        let pressure = self.memory_pressure.filter(|level| matches!(*level, "critical" | "terminal"));
        let facts = [
            (EvidenceKind::Footprint, near.map(|percent| format!("{percent} % of the limit"))),
            (EvidenceKind::LearnedLimit, near_learned.map(|percent| self.learned_evidence(percent).value)),
            (EvidenceKind::MemoryPressure, pressure.map(str::to_owned)),
            (
                EvidenceKind::Jetsam,
                self.jetsam_reason()
                    .filter(|reason| is_memory_reason(reason))
                    .map(|reason| reason.chars().take(100).collect()),
            ),
        ];
        facts.into_iter().filter_map(|(kind, value)| Some(EndEvidence { kind, value: value? })).collect()
    }
}

/// Returns true if the kernel's reason for killing a process means lack of memory.
#[must_use]
pub fn is_memory_reason(reason: &str) -> bool {
    const OTHER_KILL_REASONS: [&str; 5] =
        ["vnode-limit", "disk-space-shortage", "idle-exit", "long-idle-exit", "cpu-limit"];
    !OTHER_KILL_REASONS.contains(&reason)
}

impl fmt::Display for EndedRun {
    /// `out of memory in the foreground (rule: exclusion; confidence: medium; memory pressure: critical)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |word: &str| word.replace('_', " ");
        f.write_str(&words(self.kind.as_str()))?;
        match self.foreground {
            Some(true) => f.write_str(" in the foreground")?,
            Some(false) => f.write_str(" in the background")?,
            None => {}
        }
        write!(f, " (rule: {}; confidence: {}", words(self.rule.as_str()), self.confidence)?;
        for evidence in &self.evidence {
            write!(f, "; {}: {}", words(evidence.kind.as_str()), evidence.value)?;
        }
        if let Some(against) = &self.against {
            write!(f, "; but {}: {}", words(against.kind.as_str()), against.value)?;
        }
        f.write_str(")")
    }
}

/// Maps a reason of KSCrash. Returns `None` for a reason that says nothing or that is not known yet.
fn reason_from_kscrash(reason: &str) -> Option<EndReason> {
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

    /// Signs of lack of memory, with these rules.
    fn short_of_memory(applies: &[EndRule]) -> RunFacts<'_> {
        RunFacts {
            applies,
            footprint: Some(92),
            footprint_limit: Some(100),
            memory_pressure: Some("critical"),
            jetsam: Some("per-process-limit"),
            ..RunFacts::default()
        }
    }

    #[test]
    fn each_rule_has_a_name_and_the_first_one_counts() {
        let rules: Vec<EndRule> = RULES.iter().map(|(rule, _)| *rule).collect();
        for (place, (rule, kind)) in RULES.iter().enumerate() {
            // With every later one, and with all signs of lack of memory.
            let ended = short_of_memory(&rules[place..]).evaluate_end();
            if *rule == EndRule::CrashType {
                assert_eq!((ended.kind, ended.rule), (EndReason::OutOfMemory, EndRule::Jetsam));
                continue;
            }
            assert_eq!((ended.kind, ended.rule), (*kind, *rule));
            assert_eq!((ended.confidence, ended.evidence.len()), (Confidence::High, 0), "{rule}");
        }
        // Every rule but those that follow from other facts is in the table, in the order of its words.
        let words: Vec<_> = EndRule::ALL.into_iter().filter(|rule| rules.contains(rule)).collect();
        assert_eq!((words, rules.len()), (rules.clone(), EndRule::ALL.len() - 4));
    }

    #[test]
    fn the_words_of_kscrash_win_and_unknown_ones_do_not() {
        for (word, kind, confidence) in [
            ("memory_limit", EndReason::OutOfMemory, Confidence::Medium),
            ("memory_pressure", EndReason::OutOfMemory, Confidence::Medium),
            ("unexplained", EndReason::Unexplained, Confidence::Low),
            ("clean", EndReason::Exited, Confidence::High),
            ("crash", EndReason::Crashed, Confidence::High),
            ("hang", EndReason::Hang, Confidence::High),
            ("app_upgrade", EndReason::AppUpgrade, Confidence::High),
            ("os_upgrade", EndReason::OsUpgrade, Confidence::High),
            ("reboot", EndReason::Reboot, Confidence::High),
            ("low_battery", EndReason::LowBattery, Confidence::High),
            ("thermal", EndReason::Thermal, Confidence::High),
            ("cpu", EndReason::Cpu, Confidence::High),
            ("first_launch", EndReason::Unknown, Confidence::High),
        ] {
            let facts = RunFacts { reason: Some(word), applies: &[EndRule::Rebooted], ..RunFacts::default() };
            let ended = facts.evaluate_end();
            assert_eq!((ended.kind, ended.rule), (kind, EndRule::TerminationReason), "{word}");
            assert_eq!(ended.confidence, confidence, "{word}");
        }
        for word in ["none", "a later word", ""] {
            let facts = RunFacts { reason: Some(word), applies: &[EndRule::Rebooted], ..RunFacts::default() };
            assert_eq!(facts.evaluate_end().rule, EndRule::Rebooted, "{word}");
        }
        let facts = RunFacts { reason: Some("memory_limit"), ..short_of_memory(&[]) };
        assert_eq!(facts.evaluate_end().confidence, Confidence::High);
    }

    #[test]
    fn what_nothing_else_explains_is_lack_of_memory_and_evidence_makes_it_surer() {
        let of = |used, limit, pressure| RunFacts {
            footprint: Some(used),
            footprint_limit: Some(limit),
            memory_pressure: pressure,
            ..RunFacts::default()
        };
        for (facts, kind, confidence) in [
            (RunFacts::default(), EndReason::Unexplained, Confidence::Low),
            (of(79, 100, Some("warning")), EndReason::Unexplained, Confidence::Low),
            (of(0, 0, None), EndReason::Unexplained, Confidence::Low),
            (of(80, 100, None), EndReason::OutOfMemory, Confidence::Medium),
            (of(u64::MAX, 1, None), EndReason::OutOfMemory, Confidence::Medium),
            (of(1, 100, Some("terminal")), EndReason::OutOfMemory, Confidence::Medium),
            (of(95, 100, Some("critical")), EndReason::OutOfMemory, Confidence::High),
        ] {
            let ended = facts.evaluate_end();
            assert_eq!(
                (ended.kind, ended.rule, ended.confidence),
                (kind, EndRule::Exclusion, confidence),
                "{facts:?}"
            );
        }
        let ended = short_of_memory(&[]).evaluate_end();
        assert_eq!((ended.rule, ended.confidence), (EndRule::Jetsam, Confidence::High));
        assert_eq!(ended.evidence[0].value, "92 % of the limit");
        let idle = RunFacts { jetsam: Some("idle-exit"), foreground: Some(false), ..RunFacts::default() };
        let text = idle.evaluate_end().to_string();
        assert_eq!(text, "terminated in the background (rule: jetsam; confidence: high)");
        for empty in ["", " "] {
            let ended = RunFacts { jetsam: Some(empty), ..RunFacts::default() }.evaluate_end();
            assert_eq!((ended.kind, ended.rule), (EndReason::Unexplained, EndRule::Exclusion));
        }
    }

    #[test]
    fn a_footprint_near_a_learned_limit_is_evidence_and_one_far_below_lowers_nothing() {
        const MIB: u64 = 1 << 20;
        let of = |used: u64, own: Option<u64>| RunFacts {
            footprint: Some(used * MIB),
            footprint_limit: own,
            learned_limit: Some(2_000 * MIB),
            ..RunFacts::default()
        };
        let near = of(1_600, None).evaluate_end();
        assert_eq!((near.kind, near.confidence), (EndReason::OutOfMemory, Confidence::Medium));
        assert_eq!(
            near.to_string(),
            "out of memory (rule: exclusion; confidence: medium; learned limit: 80 % of 2000 MiB)"
        );
        let sure = RunFacts { memory_pressure: Some("critical"), ..of(1_600, None) }.evaluate_end();
        assert_eq!((sure.confidence, sure.evidence.len(), sure.against), (Confidence::High, 2, None));
        // 79.95 % is not rounded up to what is evidence. It changes neither the kind nor the confidence.
        let below = RunFacts { memory_pressure: Some("critical"), ..of(1_599, None) }.evaluate_end();
        assert_eq!((below.kind, below.confidence), (EndReason::OutOfMemory, Confidence::Medium));
        assert_eq!(below.against.unwrap().value, "79 % of 2000 MiB");
        let alone = of(10, None).evaluate_end();
        assert_eq!((alone.kind, alone.confidence), (EndReason::Unexplained, Confidence::Low));
        assert_eq!(
            alone.to_string(),
            "unexplained (rule: exclusion; confidence: low; but learned limit: 1 % of 2000 MiB)"
        );
        // What the run says itself counts, and an end of another kind has no evidence.
        let own = of(1_600, Some(4_000 * MIB)).evaluate_end();
        assert_eq!((own.kind, own.evidence.len(), own.against), (EndReason::Unexplained, 0, None));
        let rebooted = RunFacts { applies: &[EndRule::Rebooted], ..of(10, None) }.evaluate_end();
        assert_eq!((rebooted.kind, rebooted.evidence.len(), rebooted.against), (EndReason::Reboot, 0, None));
    }

    #[test]
    fn an_app_that_has_judged_itself_is_believed_as_far_as_facts_go() {
        let facts =
            RunFacts { applies: &[EndRule::CrashType], foreground: Some(false), ..RunFacts::default() };
        let ended = facts.evaluate_end();
        assert_eq!((ended.kind, ended.confidence), (EndReason::OutOfMemory, Confidence::Low));
        assert_eq!(ended.foreground, Some(false));
        let facts = RunFacts { memory_pressure: Some("critical"), ..facts };
        assert_eq!(facts.evaluate_end().confidence, Confidence::Medium);
    }
}
