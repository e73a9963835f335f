//! Sentences about what analyses found in the newest reports of a group.

use crate::reports::symbolication::Symbolication;
use unslide_store::queries::groups::context::{GroupContext, HintShare, VerdictShare, read_group_context};
use unslide_store::tenants::analyses::{AnalysisSwitches, read_switches};
use unslide_store::{GroupId, TenantTx};
use unslide_symbolicate::{Analysis, AnalysisPhrases, HintPhrase};

/// A hint counts if the reports of its device have it in at least this many other groups.
const OTHER_GROUPS_MIN: i64 = 2;
/// Fewer reports of one device are no surprise.
const ONE_DEVICE_REPORTS_MIN: i64 = 3;

/// Reads the context of a group, without what analyses found that are off for the tenant now.
pub async fn load_context(
    symbolication: &Symbolication,
    tx: &mut TenantTx,
    group: GroupId,
) -> unslide_store::Result<GroupContext> {
    let mut context = read_group_context(tx, group).await?;
    if !context.verdicts.is_empty() || !context.hints.is_empty() {
        hide_findings(&mut context, &symbolication.analyses, &read_switches(tx).await?);
    }
    Ok(context)
}

fn hide_findings(context: &mut GroupContext, analyses: &[Analysis], switches: &AnalysisSwitches) {
    let is_on = |member: &str| {
        let mut own = analyses.iter().filter(|analysis| analysis.member == member);
        own.all(|analysis| analysis.is_enabled(switches))
    };
    context.verdicts.retain(|share| is_on(&share.analysis));
    context.hints.retain(|share| is_on(&share.analysis));
}

/// Returns a sentence about a verdict. `subject` is the text of the share's subject as the reader of the sentence needs it.
pub fn describe_verdict(
    analyses: &[Analysis],
    share: &VerdictShare,
    subject: Option<&str>,
    sample: i64,
) -> String {
    let VerdictShare { analysis, verdict, reports, devices, .. } = share;
    let phrase = find_phrases(analyses, analysis).verdicts.iter().find(|phrase| phrase.verdict == verdict);
    let words = verdict.replace('_', " ");
    let found = match (subject, phrase) {
        (Some(subject), Some(phrase)) => format!("{subject} {}", phrase.predicate),
        (Some(subject), None) => format!("{words}: {subject}"),
        (None, _) => words,
    };
    let place = match devices {
        0 => String::new(),
        1 => ", from 1 device".to_owned(),
        _ => format!(", from {devices} devices"),
    };
    format!("{found} in {reports} of {}{place}", count_reports(sample))
}

/// Returns a sentence about the device if all reports of the group, or all with a hint, come from one known device.
pub fn describe_only_device(analyses: &[Analysis], context: &GroupContext) -> Option<String> {
    let hinted = context.hints.iter().find_map(|share| describe_hint(analyses, share, context.sample));
    let is_alone = context.from_one_device && context.sample >= ONE_DEVICE_REPORTS_MIN;
    let plain = || format!("One device only ({}): look at its hardware.", count_reports(context.sample));
    hinted.or_else(|| is_alone.then(plain))
}

fn describe_hint(analyses: &[Analysis], share: &HintShare, sample: i64) -> Option<String> {
    let mut phrases = find_phrases(analyses, &share.analysis).hints.iter();
    let HintPhrase { clause, advice, .. } = phrases.find(|phrase| phrase.hint == share.hint)?;
    let others = share.other_groups_of_device.filter(|others| *others >= OTHER_GROUPS_MIN)?;
    let reports = match share.reports {
        all if all == sample => count_reports(all),
        some => format!("{some} of {}", count_reports(sample)),
    };
    Some(format!("One device only ({reports}): {clause} in {} groups; {advice}.", others + 1))
}

/// Returns the words of the analysis with this member.
fn find_phrases(analyses: &[Analysis], member: &str) -> AnalysisPhrases {
    let found = analyses.iter().find(|analysis| analysis.member == member);
    found.map_or(AnalysisPhrases::NONE, |analysis| analysis.phrases)
}

fn count_reports(reports: i64) -> String {
    if reports == 1 { "1 report".to_owned() } else { format!("{reports} reports") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_symbolicate::VerdictPhrase;

    const ANALYSES: [Analysis; 1] = [Analysis {
        name: "cache",
        member: "cache",
        run: |_| None,
        is_opt_in: false,
        derived: &[],
        phrases: AnalysisPhrases {
            verdicts: &[VerdictPhrase { verdict: "stale", predicate: "is out of date" }],
            hints: &[HintPhrase {
                hint: "clock_behind",
                clause: "its clock is behind",
                advice: "look at its clock",
            }],
        },
    }];

    #[test]
    fn a_verdict_has_the_words_of_its_analysis() {
        let describe = |verdict: &str, subject: Option<&str>, reports, devices| {
            let share = VerdictShare {
                analysis: "cache".into(),
                verdict: verdict.into(),
                subject: subject.map(str::to_owned),
                reports,
                devices,
            };
            describe_verdict(&ANALYSES, &share, subject, 412)
        };
        assert_eq!(
            describe("stale", Some("`cart`"), 412, 300),
            "`cart` is out of date in 412 of 412 reports, from 300 devices"
        );
        assert_eq!(describe("stale", None, 9, 1), "stale in 9 of 412 reports, from 1 device");
        assert_eq!(describe("too_large", Some("`cart`"), 1, 0), "too large: `cart` in 1 of 412 reports");
    }

    #[test]
    fn what_an_analysis_found_is_hidden_while_it_is_off() {
        let share = VerdictShare {
            analysis: "cache".into(),
            verdict: "stale".into(),
            subject: None,
            reports: 1,
            devices: 1,
        };
        let found = GroupContext { verdicts: vec![share], ..GroupContext::default() };
        for (switched_off, shown) in [(None, 1), (Some("cache"), 0), (Some("other"), 1)] {
            let switches = switched_off.map(|name| (name.to_owned(), false)).into_iter().collect();
            let mut context = found.clone();
            hide_findings(&mut context, &ANALYSES, &switches);
            assert_eq!(context.verdicts.len(), shown, "{switches:?}");
        }
    }

    #[test]
    fn one_device_is_said_with_its_hint_if_other_groups_have_it() {
        let describe = |hint: &str, others: Option<i64>, sample, from_one_device| {
            let share = HintShare {
                analysis: "cache".into(),
                hint: hint.into(),
                reports: 9,
                devices: 1,
                other_groups_of_device: others,
            };
            let hints = vec![share];
            describe_only_device(
                &ANALYSES,
                &GroupContext { sample, from_one_device, hints, ..GroupContext::default() },
            )
        };
        assert_eq!(
            describe("clock_behind", Some(3), 9, true).as_deref(),
            Some("One device only (9 reports): its clock is behind in 4 groups; look at its clock.")
        );
        assert_eq!(
            describe("clock_behind", Some(2), 412, false).as_deref(),
            Some("One device only (9 of 412 reports): its clock is behind in 3 groups; look at its clock.")
        );
        let plain = Some("One device only (9 reports): look at its hardware.");
        for (hint, others) in [("clock_behind", Some(1)), ("clock_behind", None), ("unknown", Some(5))] {
            assert_eq!(describe(hint, others, 9, true).as_deref(), plain, "{hint} {others:?}");
            assert_eq!(describe(hint, others, 9, false), None);
            assert_eq!(describe(hint, others, 2, true), None);
        }
    }
}
