//! Why a report is in its group: which functions count, and why the others do not.

use super::ExplainedFrame;
use crate::analysis::{self, NamedFinding};
use crate::answer::{DeviceNames, Judged};
use crate::grouping::{self, CountedFrame, FunctionVerdict, GroupingRules, GroupingVerdict};
use crate::plan::Plan;
use serde::Serialize;
use std::collections::BTreeMap;

/// A report's group.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedGrouping {
    /// Fingerprint in hexadecimal digits; equal for reports of the same bug.
    pub fingerprint: String,
    /// Kind of the event, such as `crash`.
    pub kind: &'static str,
    /// One line for a list.
    pub title: String,
    /// The function that probably caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
    /// True while the symbols of a frame that counts are missing.
    pub provisional: bool,
    /// Hash of the tenant's rules; absent without rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
}

/// A function of a frame, as grouping compares it.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedFunction {
    /// Its name without types; or the image and the address while symbols are missing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// True if it is part of the fingerprint.
    pub counted: bool,
    /// The verdict, such as `runtime`.
    pub verdict: GroupingVerdict,
    /// The verdict as a sentence.
    pub reason: &'static str,
    /// The tenant's rule that matches it, such as `line 3: ignore function Log.*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Verdicts on the functions of each frame that grouping looks at.
pub(super) struct FrameVerdicts(BTreeMap<usize, Vec<FunctionVerdict>>);

/// Returns the report's group with the frames that count, and the verdict on each function.
pub(super) fn explain_grouping<'a>(
    plan: &Plan<'_, 'a>,
    judged: &[Judged<'_>],
    names: &mut DeviceNames<'a>,
    rules: &GroupingRules,
    findings: &[NamedFinding],
) -> (Option<ExplainedGrouping>, FrameVerdicts, Vec<CountedFrame>) {
    let Some((mut grouping, verdicts)) = grouping::explain_grouping(plan, judged, names, rules) else {
        return (None, FrameVerdicts(BTreeMap::new()), Vec::new());
    };
    analysis::apply_headline(&mut grouping, plan.report, findings);
    let counted = grouping.frames.clone();
    let mut by_frame: BTreeMap<usize, Vec<FunctionVerdict>> = BTreeMap::new();
    for verdict in verdicts {
        by_frame.entry(verdict.frame).or_default().push(verdict);
    }
    let grouping = ExplainedGrouping {
        fingerprint: grouping.fingerprint_text(),
        kind: grouping.kind.as_str(),
        title: grouping.title,
        culprit: grouping.culprit,
        provisional: grouping.provisional,
        rules: Some(grouping.rules).filter(|rules| !rules.is_empty()),
    };
    (Some(grouping), FrameVerdicts(by_frame), counted)
}

impl FrameVerdicts {
    /// Moves the verdicts into their frames while `room` bytes last. Returns true if some did not fit.
    pub(super) fn move_into_frames(&mut self, frames: &mut [ExplainedFrame], room: &mut usize) -> bool {
        for frame in frames {
            for verdict in self.0.remove(&frame.index).unwrap_or_default() {
                let bytes = verdict.function.len() + verdict.rule.as_ref().map_or(0, String::len);
                let Some(left) = room.checked_sub(bytes) else { return true };
                *room = left;
                frame.grouping.push(ExplainedFunction {
                    function: verdict.function,
                    counted: verdict.verdict == GroupingVerdict::Counted,
                    verdict: verdict.verdict,
                    reason: verdict.verdict.reason(),
                    rule: verdict.rule,
                });
            }
        }
        false
    }
}
