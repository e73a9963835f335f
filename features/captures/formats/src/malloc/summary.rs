//! The summary of a log: how much memory is held, by which stacks, and what has grown.

use super::checkpoints::Checkpoints;
use super::event::EventLog;
use super::history::{MemoryHistory, largest_stacks, pick_moments};
use super::replay::{EventCounts, Replay, SortedByAddress};
use super::stack_table::StackTable;
use super::totals::{
    HeldMemory, MemoryKind, MemoryRow, StackGrowth, StackMemory, StackTotals, largest_first, list_growth,
    sum_stacks,
};
use super::tree::{StackTree, stack_tree};
use super::vm_tag::vm_tag_name;
use crate::profile::ProfileImage;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use unslide_calltree::{Amount, CallTree, NodeIndex};
use unslide_model::DebugId;
use unslide_symbolicate::ImageSymbols;

/// A log with its stacks and images, and the options of its summary.
#[derive(Clone, Copy, Debug)]
pub struct LogQuestion<'a> {
    pub log: EventLog<'a>,
    pub table: StackTable<'a>,
    /// The binaries that addresses lie in.
    pub images: &'a [ProfileImage],
    /// Summarises the memory that is live after this many events; `None` for all.
    pub at: Option<usize>,
    /// Also compares with the memory after this many events: growth, and older memory that is still live.
    pub from: Option<usize>,
    /// Also the live memory over time, which takes a second replay.
    pub history: bool,
    /// The most rows of each list.
    pub most_rows: usize,
    /// The most functions of a row.
    pub most_functions: usize,
}

/// The summary of a log with its call trees.
#[derive(Clone, Debug)]
pub struct LogAnswer {
    pub memory: MemorySummary,
    /// The memory of all stacks as call trees.
    pub tree: StackTree,
    pub earlier: Option<StackTree>,
}

/// The memory of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemorySummary {
    pub events: usize,
    /// Records that were replayed. Absent if the log is sorted by address and only summed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// Bytes behind the last whole record.
    pub trailing_bytes: usize,
    /// The number of records of each kind.
    pub counts: EventCounts,
    pub memory: MemoryRow,
    pub vm_tags: Vec<TagRow>,
    /// The threads with the most memory.
    pub threads: Vec<ThreadRow>,
    /// The stacks with the most memory.
    pub stacks: Vec<StackRow>,
    /// Stacks that are not complete in the table.
    pub broken_stacks: u64,
    /// Addresses that have no names because there are too many.
    #[serde(default)]
    pub left_out: u64,
    /// The stacks with changed memory, the largest growth first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Vec<GrowthRow>>,
    /// Memory that was allocated before [`LogQuestion::from`] and is live: it may be leaked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<Vec<StackRow>>,
    /// The live memory over time. Absent if it was not requested or too few events were replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<MemoryHistory>,
}

/// Virtual memory of one tag.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TagRow {
    pub tag: u8,
    pub name: String,
    pub bytes: u64,
    pub ranges: u64,
}

impl TagRow {
    fn for_tag(tag: u8, amount: Amount) -> TagRow {
        TagRow { tag, name: vm_tag_name(tag).into_owned(), bytes: amount.weight, ranges: amount.count }
    }
}

/// The memory of one kind that one thread has allocated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadRow {
    /// The thread's number, in hexadecimal.
    pub thread: String,
    /// The kind of the memory.
    #[serde(default)]
    pub kind: MemoryKind,
    pub bytes: u64,
    pub blocks: u64,
}

/// The memory of one kind of one stack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StackRow {
    /// The stack's number in the table.
    pub stack: u64,
    /// The kind of the memory.
    #[serde(default)]
    pub kind: MemoryKind,
    pub bytes: u64,
    pub blocks: u64,
    /// The innermost function of the app, or of all.
    pub allocator: String,
    pub functions: Vec<String>,
}

/// The memory of one kind that a stack held at two moments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrowthRow {
    /// The stack's number in the table.
    pub stack: u64,
    /// The kind of the memory.
    #[serde(default)]
    pub kind: MemoryKind,
    /// The memory that it held first; 0 for the other kind.
    pub before: MemoryRow,
    /// The memory that it holds now; 0 for the other kind.
    pub after: MemoryRow,
    /// The bytes by which it has grown.
    pub grown_bytes: i64,
    /// The innermost function of the app, or of all.
    pub allocator: String,
    pub functions: Vec<String>,
}

impl LogQuestion<'_> {
    /// Replays the log. A log that is sorted by address is summed, if no moment is requested.
    ///
    /// # Errors
    /// Returns [`SortedByAddress`] if a moment of such a log is requested.
    pub fn compute_answer<'s>(
        &self,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> Result<LogAnswer, SortedByAddress> {
        let start = match Replay::new(self.log) {
            Ok(start) => start,
            Err(sorted) if self.at.is_some() || self.from.is_some() => return Err(sorted),
            Err(_) => return Ok(self.answer_from_totals(symbols)),
        };
        let before = self.from.map(|from| {
            let mut replay = start.clone();
            replay.advance_to(from);
            (from, replay.live().by_stack())
        });
        // The history's last moment is that of the answer.
        let (mut replay, moments) = (start.clone(), self.list_moments());
        let largest = largest_stacks(&mut replay, &moments);
        let mut answer = self.answer_from_replay(before, &replay, symbols);
        drop(replay);
        answer.memory.history = self.history_of(start, moments, &largest, symbols);
        Ok(answer)
    }

    /// Does the same without a history. Uses checkpoints of its log, which several questions can share.
    pub fn answer_from<'s>(
        &self,
        checkpoints: &mut Checkpoints<'_>,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> LogAnswer {
        let before = self.from.map(|from| (from, checkpoints.replay_to(from).live().by_stack()));
        self.answer_from_replay(before, &checkpoints.replay_to(self.at.unwrap_or(usize::MAX)), symbols)
    }

    /// Returns the live memory at moments up to [`LogQuestion::at`]. Returns `None` if these are too few
    /// events. Replays the log twice.
    ///
    /// # Errors
    /// Returns [`SortedByAddress`] if the log is sorted by address.
    pub fn compute_history<'s>(
        &self,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> Result<Option<MemoryHistory>, SortedByAddress> {
        let (start, moments) = (Replay::new(self.log)?, self.list_moments());
        let largest = largest_stacks(&mut start.clone(), &moments);
        Ok(self.history_of(start, moments, &largest, symbols))
    }

    /// Returns the moments of the history; without one only that of the answer.
    fn list_moments(&self) -> Vec<usize> {
        let end = self.at.unwrap_or(usize::MAX).min(self.log.len());
        if self.history { pick_moments(end) } else { vec![end] }
    }

    fn answer_from_replay<'s>(
        &self,
        before: Option<(usize, StackTotals)>,
        replay: &Replay<'_>,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> LogAnswer {
        let live = replay.live();
        let after = live.by_stack();
        let tree = self.build_tree(&after, symbols);
        let mut memory = self.build_summary(&after, &tree, replay.counts());
        memory.position = Some(replay.position());
        memory.memory = live.total().into();
        memory.vm_tags =
            live.by_tag().into_iter().map(|(tag, amount)| TagRow::for_tag(tag, amount)).collect();
        let Some((from, before)) = before else { return LogAnswer { memory, tree, earlier: None } };
        let earlier = self.build_tree(&before, symbols);
        let grown = list_growth(&before, &after);
        let rows = grown.iter().take(self.most_rows).map(|grown| self.growth_row(grown, &tree, &earlier));
        memory.growth = Some(rows.collect());
        memory.older = Some(self.stack_rows(&live.older_than(from as u64), &tree));
        LogAnswer { memory, tree, earlier: Some(earlier) }
    }

    fn history_of<'s>(
        &self,
        start: Replay<'_>,
        moments: Vec<usize>,
        largest: &StackTotals,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> Option<MemoryHistory> {
        if moments.len() < 2 {
            return None;
        }
        let tree = self.build_tree(largest, symbols);
        let allocator = |of| find_stack_nodes(of, &[&tree]).describe_allocator();
        Some(MemoryHistory::from_replay(start, moments, largest, allocator))
    }

    fn build_tree<'s>(
        &self,
        totals: &StackTotals,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> StackTree {
        stack_tree(totals, &self.table, self.images, symbols)
    }

    fn answer_from_totals<'s>(&self, symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>) -> LogAnswer {
        let mut totals = self.log.sum_events();
        totals.counts.out_of_order = self.log.out_of_order().unwrap_or(0);
        let tree = self.build_tree(&totals.allocated, symbols);
        let memory = self.build_summary(&totals.allocated, &tree, totals.counts);
        LogAnswer { memory, tree, earlier: None }
    }

    fn build_summary(&self, totals: &StackTotals, tree: &StackTree, counts: EventCounts) -> MemorySummary {
        MemorySummary {
            events: self.log.len(),
            position: None,
            trailing_bytes: self.log.trailing_bytes(),
            counts,
            memory: sum_stacks(totals).into(),
            vm_tags: Vec::new(),
            threads: self.list_threads(tree),
            stacks: self.stack_rows(totals, tree),
            broken_stacks: tree.broken,
            left_out: tree.left_out,
            growth: None,
            older: None,
            history: None,
        }
    }

    fn list_threads(&self, tree: &StackTree) -> Vec<ThreadRow> {
        let by_kind = |(thread, held): (&u64, &HeldMemory)| {
            [(*thread, MemoryKind::Heap, held.heap), (*thread, MemoryKind::Virtual, held.vm)]
        };
        let mut threads: Vec<(u64, MemoryKind, Amount)> = tree.threads.iter().flat_map(by_kind).collect();
        threads.retain(|(_, _, held)| held.count > 0);
        threads.sort_unstable_by_key(|(thread, kind, held)| (Reverse(held.weight), *thread, *kind));
        let rows = threads.into_iter().take(self.most_rows);
        rows.map(|(thread, kind, held)| ThreadRow {
            thread: format!("{thread:#x}"),
            kind,
            bytes: held.weight,
            blocks: held.count,
        })
        .collect()
    }

    /// Returns the stacks with the most memory.
    fn stack_rows(&self, totals: &StackTotals, tree: &StackTree) -> Vec<StackRow> {
        let rows = largest_first(totals).into_iter().take(self.most_rows);
        rows.map(|(of, held)| {
            let nodes = find_stack_nodes(of, &[tree]);
            let StackMemory { stack, kind } = of;
            let Amount { weight: bytes, count: blocks } = held;
            let (allocator, functions) = (nodes.describe_allocator(), self.describe_functions(&nodes));
            StackRow { stack, kind, bytes, blocks, allocator, functions }
        })
        .collect()
    }

    /// Returns the row of a stack that one of the trees has.
    fn growth_row(&self, grown: &StackGrowth, after: &StackTree, before: &StackTree) -> GrowthRow {
        let StackMemory { stack, kind } = grown.of;
        let nodes = find_stack_nodes(grown.of, &[after, before]);
        let limit = if grown.grown_bytes() < 0 { i64::MIN } else { i64::MAX };
        GrowthRow {
            stack,
            kind,
            before: MemoryRow::for_kind(kind, grown.before),
            after: MemoryRow::for_kind(kind, grown.after),
            grown_bytes: i64::try_from(grown.grown_bytes()).unwrap_or(limit),
            allocator: nodes.describe_allocator(),
            functions: self.describe_functions(&nodes),
        }
    }

    fn describe_functions(&self, stack: &StackNodes<'_>) -> Vec<String> {
        stack.describe_functions(self.most_functions)
    }
}

/// Frames of a stack, in the tree that has them.
pub(crate) struct StackNodes<'t> {
    tree: &'t CallTree,
    nodes: Vec<NodeIndex>,
}

impl StackNodes<'_> {
    /// Returns the innermost function of the app, or of all.
    pub(crate) fn describe_allocator(&self) -> String {
        self.tree.describe_app_function(&self.nodes)
    }

    /// Returns the functions, the innermost first, at most `most`.
    pub(crate) fn describe_functions(&self, most: usize) -> Vec<String> {
        self.nodes.iter().take(most).map(|at| self.tree.describe(*at)).collect()
    }
}

/// Finds a stack in the first tree that has it.
pub(crate) fn find_stack_nodes<'t>(of: StackMemory, trees: &[&'t StackTree]) -> StackNodes<'t> {
    let found = trees.iter().find_map(|tree| Some((tree.for_kind(of.kind), *tree.nodes.get(&of)?)));
    let (tree, node) = found.unwrap_or((trees[0].for_kind(of.kind), CallTree::ROOT));
    StackNodes { tree, nodes: tree.find_stack(node) }
}
