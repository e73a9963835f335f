//! What is said of a log, as JSON and for people.

use crate::output::{Table, note, say};
use serde::Serialize;
use unslide_signals::calltree::{Amount, CallTree, FrameOrigin, NodeIndex};
use unslide_signals::malloc::{EventCounts, HeldMemory, StackGrowth, StackTotals, StackTree, vm_tag_name};

/// Rows of each list that people are shown.
const SHOWN_ROWS: usize = 20;
/// Functions of a stack that are listed.
const MOST_FUNCTIONS: usize = 512;

/// What is said of a log.
#[derive(Serialize)]
pub struct MemoryAnswer {
    /// Records of the log.
    pub events: usize,
    /// Records that were replayed; left out where the log is sorted by address and only summed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// Bytes behind the last whole record.
    pub trailing_bytes: usize,
    pub counts: EventCounts,
    pub memory: MemoryRow,
    pub vm_tags: Vec<TagRow>,
    pub threads: Vec<ThreadRow>,
    pub stacks: Vec<StackRow>,
    /// Stacks that the table has not to the end.
    pub broken_stacks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<Vec<GrowthRow>>,
    /// What was allocated before `--from` and is live: it may be leaked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older: Option<Vec<StackRow>>,
}

/// Memory of the heap, and virtual memory.
#[derive(Clone, Copy, Serialize)]
pub struct MemoryRow {
    heap_bytes: u64,
    heap_blocks: u64,
    vm_bytes: u64,
    vm_ranges: u64,
}

impl From<HeldMemory> for MemoryRow {
    fn from(held: HeldMemory) -> MemoryRow {
        let HeldMemory { heap, vm } = held;
        MemoryRow {
            heap_bytes: heap.weight,
            heap_blocks: heap.count,
            vm_bytes: vm.weight,
            vm_ranges: vm.count,
        }
    }
}

/// Virtual memory of one tag.
#[derive(Serialize)]
pub struct TagRow {
    tag: u8,
    name: String,
    bytes: u64,
    ranges: u64,
}

impl From<(u8, Amount)> for TagRow {
    fn from((tag, amount): (u8, Amount)) -> TagRow {
        TagRow { tag, name: vm_tag_name(tag).into_owned(), bytes: amount.weight, ranges: amount.count }
    }
}

/// The memory that one thread has allocated.
#[derive(Serialize)]
pub struct ThreadRow {
    thread: String,
    bytes: u64,
    blocks: u64,
}

/// The threads with the most memory.
pub fn threads(tree: &StackTree) -> Vec<ThreadRow> {
    let mut threads: Vec<(u64, Amount)> =
        tree.threads.iter().map(|(thread, held)| (*thread, *held)).collect();
    threads.sort_unstable_by_key(|(thread, held)| (std::cmp::Reverse(held.weight), *thread));
    let rows = threads.into_iter().take(crate::offline::malloc_log::MOST_ROWS);
    rows.map(|(thread, held)| ThreadRow {
        thread: format!("{thread:#x}"),
        bytes: held.weight,
        blocks: held.count,
    })
    .collect()
}

/// The memory of all stacks.
pub fn sum(totals: &StackTotals) -> HeldMemory {
    let mut sum = HeldMemory::default();
    for held in totals.values() {
        sum.heap += held.heap;
        sum.vm += held.vm;
    }
    sum
}

/// The memory of one stack.
#[derive(Serialize)]
pub struct StackRow {
    stack: u64,
    bytes: u64,
    blocks: u64,
    /// The innermost first.
    functions: Vec<String>,
    /// The innermost function of the app, or of all.
    #[serde(skip)]
    allocator: String,
}

impl StackRow {
    /// The row of a stack that the tree has.
    pub fn of(stack: u64, held: HeldMemory, tree: &StackTree) -> StackRow {
        let nodes = nodes(stack, &[tree]);
        let functions = nodes.1.iter().take(MOST_FUNCTIONS).map(|at| function(nodes.0, *at)).collect();
        let total = held.total();
        StackRow { stack, bytes: total.weight, blocks: total.count, functions, allocator: allocator(&nodes) }
    }
}

/// What a stack held at two moments.
#[derive(Serialize)]
pub struct GrowthRow {
    stack: u64,
    before: MemoryRow,
    after: MemoryRow,
    /// Bytes that came to it.
    grown_bytes: i64,
    functions: Vec<String>,
    #[serde(skip)]
    allocator: String,
}

impl GrowthRow {
    /// The row of a stack that one of the trees has.
    pub fn of(grown: &StackGrowth, after: &StackTree, before: &StackTree) -> GrowthRow {
        let nodes = nodes(grown.stack, &[after, before]);
        let functions = nodes.1.iter().take(MOST_FUNCTIONS).map(|at| function(nodes.0, *at)).collect();
        let limit = if grown.bytes() < 0 { i64::MIN } else { i64::MAX };
        GrowthRow {
            stack: grown.stack,
            before: grown.before.into(),
            after: grown.after.into(),
            grown_bytes: i64::try_from(grown.bytes()).unwrap_or(limit),
            functions,
            allocator: allocator(&nodes),
        }
    }
}

/// The frames of a stack, and the tree that has them.
fn nodes<'t>(stack: u64, trees: &[&'t StackTree]) -> (&'t CallTree, Vec<NodeIndex>) {
    let found = trees.iter().find_map(|tree| Some((&tree.tree, *tree.nodes.get(&stack)?)));
    let (tree, node) = found.unwrap_or((&trees[0].tree, CallTree::ROOT));
    (tree, tree.stack(node))
}

fn function(tree: &CallTree, index: NodeIndex) -> String {
    let frame = tree.frame(index);
    let place = &tree.node(index).place;
    let place = place.as_ref().map_or_else(String::new, |place| format!(" {}:{}", place.file, place.line));
    let image = if frame.image.is_empty() { String::new() } else { format!(" ({})", frame.image) };
    format!("{}{image}{place}", frame.name)
}

fn allocator((tree, nodes): &(&CallTree, Vec<NodeIndex>)) -> String {
    let own = nodes.iter().find(|at| tree.frame(**at).origin == FrameOrigin::App);
    own.or(nodes.first()).map_or_else(String::new, |at| function(tree, *at))
}

impl MemoryAnswer {
    /// Prints the answer for people.
    pub fn print(&self) {
        self.account();
        let MemoryRow { heap_bytes, heap_blocks, vm_bytes, vm_ranges } = self.memory;
        let what = match self.position {
            Some(position) => format!("live after {position} events"),
            None => "allocated, freed or not".to_owned(),
        };
        say!("{what}: {heap_bytes} bytes in {heap_blocks} blocks, {vm_bytes} bytes in {vm_ranges} ranges");
        if !self.vm_tags.is_empty() {
            let mut table = Table::new(&["TAG", "BYTES", "RANGES"]);
            for row in self.vm_tags.iter().take(SHOWN_ROWS) {
                table.row([row.name.clone(), row.bytes.to_string(), row.ranges.to_string()]);
            }
            table.print();
        }
        stacks_table(&self.stacks);
        if let Some(growth) = &self.growth {
            say!("changed since:");
            let mut table = Table::new(&["GROWN", "STACK", "FUNCTION"]);
            for row in growth.iter().take(SHOWN_ROWS) {
                table.row([row.grown_bytes.to_string(), row.stack.to_string(), row.allocator.clone()]);
            }
            table.print();
        }
        if let Some(older) = &self.older {
            say!("allocated before and still live:");
            stacks_table(older);
        }
    }

    /// Says what could not be used.
    pub fn account(&self) {
        let EventCounts { unknown_deallocations, replaced, empty, other, damaged, .. } = self.counts;
        let parts = [
            (damaged, "damaged records were passed over"),
            (empty, "empty records were passed over"),
            (other, "records are of something else than memory"),
            (unknown_deallocations, "deallocations are of memory that is not in the log"),
            (replaced, "allocations are at addresses that the log does not free before"),
            (self.broken_stacks, "stacks are not whole in the table"),
        ];
        for (count, what) in parts.iter().filter(|(count, _)| *count > 0) {
            note!("{count} {what}");
        }
        if self.trailing_bytes > 0 {
            note!("{} bytes at the end are no whole record", self.trailing_bytes);
        }
    }
}

fn stacks_table(rows: &[StackRow]) {
    let mut table = Table::new(&["BYTES", "BLOCKS", "STACK", "FUNCTION"]);
    for row in rows.iter().take(SHOWN_ROWS) {
        let StackRow { stack, bytes, blocks, allocator, .. } = row;
        table.row([bytes.to_string(), blocks.to_string(), stack.to_string(), allocator.clone()]);
    }
    table.print();
}
