//! Grouping of a report that was sampled while the app was slow. The group is the heaviest path through the
//! app's own functions.

use super::candidates::{Candidates, FailureFacts, NOT_APP, Standing};
use super::fingerprint::build_grouping;
use super::frames::{NamedBy, list_planned, name_frames};
use super::{FunctionVerdict, GroupKind, Grouping, GroupingRules, GroupingVerdict};
use crate::plan::Plan;
use std::cmp::Reverse;
use std::collections::HashMap;
use unslide_report::{CrashError, ReportProfile};

/// The most frames that are named: those with the most samples. A frame of the path has at least half of all
/// samples.
const MOST_FRAMES: usize = 1_024;
/// The most functions that are visited in all nodes. Functions inlined into a frame are visited for each of its
/// nodes.
const MOST_VISITED: usize = 1 << 20;
/// Functions of the path that count, starting at the innermost: their callers differ between ways to the same
/// work.
const PATH_FUNCTIONS: usize = 2;

/// Returns the group of a profile, and the verdict on each function.
pub(super) fn group_profile<'a>(
    plan: &Plan<'_, 'a>,
    profile: &ReportProfile<'_, 'a>,
    by: NamedBy<'_, '_, 'a>,
    rules: &GroupingRules,
) -> (Grouping, Vec<FunctionVerdict>) {
    let error = plan.report.crash_error();
    let kind = GroupKind::from_error(error);
    let exception = profile.name.clone().or_else(|| error.exception.clone());
    let error = CrashError { exception, ..error.clone() };
    let all = list_planned(plan, profile.backtrace);
    let heaviest: Vec<_> =
        heaviest_frames(profile).into_iter().filter_map(|at| all.get(at).copied()).collect();
    let facts = FailureFacts::from_error(kind, &error);
    let candidates = Candidates::from_frames(name_frames(plan, by, &heaviest), facts, rules, true);
    let chosen = [&[Standing::App][..], &NOT_APP, &[Standing::Entry]]
        .into_iter()
        .map(|standing| heaviest_path(profile, &candidates, standing))
        .find(|path| !path.is_empty());
    let chosen = chosen.unwrap_or_default();
    let grouping = build_grouping(kind, &error, rules, &candidates, &chosen, &chosen);
    let mut verdicts = candidates.list_verdicts(kind, &chosen, &heaviest);
    for one in &mut verdicts {
        if matches!(
            one.verdict,
            GroupingVerdict::InsideHang | GroupingVerdict::Beyond | GroupingVerdict::Repeated
        ) {
            // A function has one frame for each of its addresses.
            let counts = grouping.frames.iter().any(|counted| counted.function == one.function);
            one.verdict = if counts { GroupingVerdict::Counted } else { GroupingVerdict::OffPath };
        }
    }
    (grouping, verdicts)
}

/// Returns the positions of the frames with the most samples below them.
fn heaviest_frames(profile: &ReportProfile<'_, '_>) -> Vec<usize> {
    let mut totals: Vec<u64> = profile.nodes.iter().map(|node| node.samples).collect();
    let mut by_frame: HashMap<u32, u64> = HashMap::new();
    for (at, node) in profile.nodes.iter().enumerate().rev() {
        if let Some(parent) = node.parent {
            totals[parent as usize] = totals[parent as usize].saturating_add(totals[at]);
        }
        let total = by_frame.entry(node.frame).or_default();
        *total = total.saturating_add(totals[at]);
    }
    let mut frames: Vec<(u32, u64)> = by_frame.into_iter().collect();
    frames.sort_unstable_by_key(|(frame, total)| (Reverse(*total), *frame));
    frames.into_iter().take(MOST_FRAMES).map(|(frame, _)| frame as usize).collect()
}

/// A function under certain callers, among the functions with one standing.
struct PathNode {
    parent: usize,
    /// The candidate for the function's name.
    candidate: usize,
    total: u64,
}

/// Returns the innermost [`PATH_FUNCTIONS`] candidates of the heaviest path. The path continues while a node
/// has at least half of all samples.
fn heaviest_path(
    profile: &ReportProfile<'_, '_>,
    candidates: &Candidates<'_>,
    standing: &[Standing],
) -> Vec<usize> {
    let nodes = path_nodes(profile, candidates, standing);
    let all = nodes[0].total;
    let mut heaviest: Vec<Option<usize>> = vec![None; nodes.len()];
    for (at, node) in nodes.iter().enumerate().skip(1) {
        let known = &mut heaviest[node.parent];
        if known.is_none_or(|known| nodes[known].total < node.total) {
            *known = Some(at);
        }
    }
    let mut path = Vec::new();
    let mut next = heaviest[0];
    while let Some(at) = next.filter(|at| path.is_empty() || nodes[*at].total >= all.div_ceil(2)) {
        path.push(nodes[at].candidate);
        next = heaviest[at];
    }
    path.reverse();
    path.truncate(PATH_FUNCTIONS);
    path
}

/// Returns the tree of the functions with this standing, callers first. The first node is the root. Once the
/// limit of visited functions is reached, samples count for the callers.
fn path_nodes(
    profile: &ReportProfile<'_, '_>,
    candidates: &Candidates<'_>,
    standing: &[Standing],
) -> Vec<PathNode> {
    let functions = functions_by_frame(candidates, standing);
    let names = first_of_name(candidates);
    let mut nodes = vec![PathNode { parent: 0, candidate: 0, total: 0 }];
    let mut known: HashMap<(usize, usize), usize> = HashMap::new();
    let mut visited = 0;
    let mut places: Vec<usize> = Vec::with_capacity(profile.nodes.len());
    for node in &profile.nodes {
        let mut at = node.parent.map_or(0, |parent| places[parent as usize]);
        let frame = profile.backtrace.frames.get(node.frame as usize).map(|frame| frame.index);
        let own = frame.and_then(|frame| functions.get(&frame)).map(Vec::as_slice).unwrap_or_default();
        visited += own.len();
        if visited <= MOST_VISITED {
            // Inlined functions come before their callers.
            for candidate in own.iter().rev().copied() {
                let name = names[candidate];
                if at != 0 && names[nodes[at].candidate] == name {
                    continue;
                }
                at = *known.entry((at, name)).or_insert_with(|| {
                    nodes.push(PathNode { parent: at, candidate, total: 0 });
                    nodes.len() - 1
                });
            }
        }
        nodes[at].total = nodes[at].total.saturating_add(node.samples);
        places.push(at);
    }
    for at in (1..nodes.len()).rev() {
        let (parent, total) = (nodes[at].parent, nodes[at].total);
        nodes[parent].total = nodes[parent].total.saturating_add(total);
    }
    nodes
}

/// Returns the positions of each frame's candidates with this standing, by the frame's index.
fn functions_by_frame(candidates: &Candidates<'_>, standing: &[Standing]) -> HashMap<usize, Vec<usize>> {
    let mut functions: HashMap<usize, Vec<usize>> = HashMap::new();
    let list = candidates.list.iter().enumerate();
    for (at, candidate) in list.filter(|(_, candidate)| standing.contains(&candidate.standing)) {
        functions.entry(candidate.counted.frame).or_default().push(at);
    }
    functions
}

/// Returns, for each candidate, the position of the first candidate with the same name.
fn first_of_name(candidates: &Candidates<'_>) -> Vec<usize> {
    let mut known: HashMap<&str, usize> = HashMap::new();
    let list = candidates.list.iter().enumerate();
    list.map(|(at, candidate)| *known.entry(&candidate.counted.function).or_insert(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::CountedFrame;
    use super::super::candidates::Candidate;
    use super::*;
    use unslide_report::{ProfileNode, ReadLimits, Report};

    #[test]
    fn inlined_functions_of_many_nodes_are_bounded() {
        const INLINED: usize = 256;
        let counted =
            |at| CountedFrame { frame: 0, function: format!("f{at}"), path: None, file: None, label: None };
        let list = (0..INLINED)
            .map(|at| Candidate { counted: counted(at), standing: Standing::App, rule: None })
            .collect();
        let candidates = Candidates { list, trap: None };
        let profile = br#"{"crash":{"error":{"profile":{"frames":[{"instruction_addr":4097}]}}}}"#;
        let report = Report::read(profile, &ReadLimits::default()).unwrap();
        // Each node is a call from the one before.
        let nodes =
            (0..1_u32 << 13).map(|at| ProfileNode { parent: at.checked_sub(1), frame: 0, samples: 1 });
        let profile = ReportProfile {
            backtrace: &report.backtraces[0],
            nodes: nodes.collect(),
            order: Vec::new(),
            name: None,
            millis: None,
            skipped: 0,
        };
        let nodes = path_nodes(&profile, &candidates, &[Standing::App]);
        assert_eq!((nodes.len(), nodes[0].total), (MOST_VISITED + 1, 1 << 13));
    }
}
