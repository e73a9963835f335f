//! Compares two captures of one kind: the changes from the earlier to the later one.

use super::{CaptureAnalysis, CaptureKind, MOST_FUNCTIONS, MOST_ROWS};
use serde::Serialize;
use std::cmp::Reverse;
use unslide_calltree::{Amount, CallTree, CutTree, NodeIndex, TreeDifference};
use unslide_captures_formats::malloc::{MemoryRow, MemorySummary};
use unslide_captures_formats::memory_graph::{MemoryComparison, MemoryTables, compare_tables};

/// The changes between two captures. Functions that only one of two cut trees has count for their callers in
/// the other.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureComparison {
    /// The unit of weights: `samples` or `bytes`.
    pub unit: String,
    /// The weight of all of the earlier one.
    pub before: u64,
    /// The weight of all of the later one.
    pub after: u64,
    /// Stacks with a changed own weight, those that grew most first; of graphs of memory none. Of logs, by the heap.
    pub paths: Vec<PathGrowth>,
    /// The same of logs by virtual memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vm_paths: Vec<PathGrowth>,
    /// The memory of two logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ComparedMemory>,
    /// The changes between two memory graphs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<MemoryComparison>,
    /// Stacks that have changed and were left out, and functions that the two analyses have summed.
    pub left_out: u64,
}

/// How a stack has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathGrowth {
    /// The innermost function of the app, or of all.
    pub allocator: String,
    pub functions: Vec<String>,
    /// How often, in the earlier one.
    pub count_before: u64,
    /// How often, in the later one.
    pub count_after: u64,
    /// How much, in the earlier one.
    pub weight_before: u64,
    /// How much, in the later one.
    pub weight_after: u64,
}

/// The memory of two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedMemory {
    pub before: MemoryRow,
    pub after: MemoryRow,
}

/// Why two captures cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotComparable {
    /// At least one of them says nothing.
    #[error(
        "a .memgraph is opaque and cannot be compared; send the text that heap, leaks, vmmap or footprint prints for it"
    )]
    Opaque,
    /// Graphs of memory that were read from different things.
    #[error(
        "the two captures have different formats: compare a graph with a graph, or two texts of the same tool"
    )]
    Sources,
    /// Logs of which one has no order.
    #[error("one of the two logs is sorted by address: its totals are known, but not its live allocations")]
    Orders,
}

impl CaptureComparison {
    /// Compares two captures of one kind.
    ///
    /// # Errors
    /// [`NotComparable`].
    pub fn from_analyses(
        kind: CaptureKind,
        before: &CaptureAnalysis,
        after: &CaptureAnalysis,
    ) -> Result<CaptureComparison, NotComparable> {
        let graph = match (&before.graph, &after.graph) {
            (Some(before), Some(after)) => Some(compare_graphs(before, after)?),
            _ if kind == CaptureKind::MemoryGraph => return Err(NotComparable::Opaque),
            _ => None,
        };
        let memory = before.memory.as_ref().zip(after.memory.as_ref());
        let memory = memory.map(|(before, after)| compare_memory(before, after)).transpose()?;
        let (paths, left_out) = match graph {
            Some(_) => (Vec::new(), before.tree.summed.saturating_add(after.tree.summed)),
            None => grown_paths(&before.tree, &after.tree),
        };
        let without = CutTree::from_tree(&CallTree::new("bytes"));
        let [vm_before, vm_after] =
            [before, after].map(|analysis| analysis.vm_tree.as_ref().unwrap_or(&without));
        let (vm_paths, vm_left_out) = grown_paths(vm_before, vm_after);
        Ok(CaptureComparison {
            unit: after.tree.unit.clone(),
            before: before.tree.weight,
            after: after.tree.weight,
            paths,
            vm_paths,
            memory,
            graph,
            left_out: left_out.saturating_add(vm_left_out),
        })
    }
}

fn compare_graphs(before: &MemoryTables, after: &MemoryTables) -> Result<MemoryComparison, NotComparable> {
    if before.source != after.source {
        return Err(NotComparable::Sources);
    }
    let mut change = compare_tables(before, after);
    change.truncate_rows(MOST_ROWS);
    Ok(change)
}

fn compare_memory(before: &MemorySummary, after: &MemorySummary) -> Result<ComparedMemory, NotComparable> {
    if before.position.is_some() != after.position.is_some() {
        return Err(NotComparable::Orders);
    }
    Ok(ComparedMemory { before: before.memory, after: after.memory })
}

/// Returns the stacks that have changed most, and the number of the others and of the nodes that were summed.
fn grown_paths(before: &CutTree, after: &CutTree) -> (Vec<PathGrowth>, u64) {
    let difference = TreeDifference::from_trees(&before.tree_without_rests(), &after.tree_without_rests());
    let summed = before.summed.saturating_add(after.summed);
    let tree = difference.tree();
    let mut changed: Vec<(NodeIndex, Amount, Amount)> = Vec::new();
    for index in tree.indices().skip(1) {
        let (before, after) = difference.own_amounts(index);
        if before != after {
            changed.push((index, before, after));
        }
    }
    let growth = |before: Amount, after: Amount| i128::from(after.weight) - i128::from(before.weight);
    changed.sort_by_key(|(index, before, after)| (Reverse(growth(*before, *after)), *index));
    let left_out = changed.len().saturating_sub(MOST_ROWS);
    let path = |(index, before, after): (NodeIndex, Amount, Amount)| {
        let stack = tree.find_stack(index);
        PathGrowth {
            allocator: tree.describe_app_function(&stack),
            functions: stack.iter().take(MOST_FUNCTIONS).map(|at| tree.describe(*at)).collect(),
            count_before: before.count,
            count_after: after.count,
            weight_before: before.weight,
            weight_after: after.weight,
        }
    };
    (changed.into_iter().take(MOST_ROWS).map(path).collect(), summed.saturating_add(left_out as u64))
}

#[cfg(test)]
mod tests {
    use super::super::{CaptureForm, MallocLayout, analyse_capture};
    use super::*;

    fn profile(text: &'static str) -> CaptureAnalysis {
        analyse_capture(&CaptureForm::Profile, &|_| text.as_bytes(), &|_| None).unwrap().analysis
    }

    #[test]
    fn stacks_grow_by_what_is_their_own() {
        let before = profile("main;draw 6\nmain;load 4\nmain;same 1\n");
        let after = profile("main;draw 9\nmain;draw;blur 5\nmain;same 1\n");
        let change = CaptureComparison::from_analyses(CaptureKind::Profile, &before, &after).unwrap();
        let paths: Vec<_> = change
            .paths
            .iter()
            .map(|row| (row.functions.join(" "), row.weight_before, row.weight_after))
            .collect();
        let row = |path: &str, before, after| (path.to_owned(), before, after);
        assert_eq!(paths, [row("blur draw main", 0, 5), row("draw main", 6, 9), row("load main", 4, 0)]);
        assert_eq!((change.unit.as_str(), change.before, change.after), ("samples", 11, 15));
        assert!(change.graph.is_none() && change.memory.is_none() && change.left_out == 0);
        assert!(
            CaptureComparison::from_analyses(CaptureKind::Profile, &after, &after).unwrap().paths.is_empty(),
            "a capture is as it is"
        );
    }

    #[test]
    fn graphs_are_compared_by_class_and_only_with_their_like() {
        let kind = CaptureKind::MemoryGraph;
        let graph = |text: &str| {
            analyse_capture(&CaptureForm::MemoryGraph, &|_| text.as_bytes(), &|_| None).unwrap().analysis
        };
        let heap = "COUNT BYTES AVG CLASS_NAME\n1 16 16.0 Cart\n";
        let change =
            CaptureComparison::from_analyses(kind, &graph(heap), &graph(&heap.replace("1 16", "3 48")));
        let change = change.unwrap();
        let class = &change.graph.unwrap().classes[0];
        assert_eq!((class.name.as_str(), class.blocks_before, class.bytes_after), ("Cart", 1, 48));
        assert!(change.paths.is_empty());
        let opaque = graph("bplist00\u{1}");
        let refused = CaptureComparison::from_analyses(kind, &opaque, &opaque).unwrap_err();
        assert_eq!(refused, NotComparable::Opaque);
    }

    #[test]
    fn logs_are_compared_by_what_they_hold() {
        let (events, stacks) = super::super::log::small_log();
        let log = |at: u64| {
            let file = |name: &str| match name {
                "events" => &events[..],
                "stacks" => &stacks[..],
                _ => &[],
            };
            let form =
                CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: Some(at), from: None };
            analyse_capture(&form, &file, &|_| None).unwrap().analysis
        };
        let change = CaptureComparison::from_analyses(CaptureKind::MallocLog, &log(1), &log(2)).unwrap();
        let memory = change.memory.unwrap();
        assert_eq!((memory.before.heap_bytes, memory.after.heap_bytes), (100, 300));
        assert_eq!((change.paths.len(), change.paths[0].weight_after), (1, 200));
        assert!(change.vm_paths.is_empty());
        let mut sorted = log(2);
        sorted.memory.as_mut().unwrap().position = None;
        let refused = CaptureComparison::from_analyses(CaptureKind::MallocLog, &log(1), &sorted).unwrap_err();
        assert_eq!(refused, NotComparable::Orders);
    }
}
