//! The memory of stacks as a call tree: who allocates.

use super::stack_table::{StackEnd, StackTable};
use super::totals::{HeldMemory, MemoryKind, StackMemory, StackTotals};
use crate::profile::{FrameNames, NamedCall, ProfileImage};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use unslide_calltree::{CallFrame, CallTree, FrameOrigin, NodeIndex};
use unslide_model::DebugId;
use unslide_symbolicate::{ImageOutcome, ImageSymbols};

/// The call trees of stacks, one for each kind of memory.
#[derive(Clone, Debug)]
pub struct StackTree {
    /// The tree of the heap. Its unit is bytes, and counts are of blocks.
    pub heap: CallTree,
    /// The tree of virtual memory. Its unit is bytes, and counts are of ranges.
    pub vm: CallTree,
    /// The images with frames that have no names because symbols are missing.
    pub lacking: Vec<ImageOutcome>,
    /// Addresses that have no names because there are too many.
    pub left_out: u64,
    /// Stacks that are broken in the table; their frames up to there are in the tree.
    pub broken: u64,
    /// The memory of each thread, by its number.
    pub threads: HashMap<u64, HeldMemory>,
    /// The innermost frame of each stack, in the tree of the kind.
    pub nodes: HashMap<StackMemory, NodeIndex>,
}

impl StackTree {
    /// Returns the tree of a kind of memory.
    #[must_use]
    pub fn for_kind(&self, kind: MemoryKind) -> &CallTree {
        match kind {
            MemoryKind::Heap => &self.heap,
            MemoryKind::Virtual => &self.vm,
        }
    }
}

/// Returns the trees of the memory of stacks. Threads are merged in them. All frames are return addresses.
#[must_use]
pub fn stack_tree<'s>(
    totals: &StackTotals,
    table: &StackTable<'_>,
    images: &[ProfileImage],
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> StackTree {
    let (mut heap, mut vm) = (CallTree::new("bytes"), CallTree::new("bytes"));
    let mut threads: HashMap<u64, HeldMemory> = HashMap::new();
    let mut nodes = HashMap::with_capacity(totals.len());
    let addresses = collect_addresses(totals, table);
    let mut names = FrameNames::for_addresses(images, addresses, symbols);
    let mut known: HashMap<u64, Rc<[NamedCall]>> = HashMap::new();
    // Nodes lie in the order of the stacks, so that the same input makes the same trees.
    let mut stacks: Vec<_> = totals.iter().collect();
    stacks.sort_unstable_by_key(|(of, _)| **of);
    let mut broken = HashSet::new();
    for (of, held) in stacks {
        let walk = table.walk_stack(of.stack);
        if walk.end != StackEnd::Root {
            broken.insert(of.stack);
        }
        if let Some(thread) = walk.thread {
            *threads.entry(thread).or_default().amount_mut(of.kind) += *held;
        }
        let tree = match of.kind {
            MemoryKind::Heap => &mut heap,
            MemoryKind::Virtual => &mut vm,
        };
        let mut at = CallTree::ROOT;
        if walk.frames.is_empty() {
            at = tree.find_or_add_child(at, &CallFrame::for_function("???", "", FrameOrigin::Unknown), None);
        }
        'stack: for address in walk.frames.iter().rev() {
            let calls = known.entry(address.0).or_insert_with(|| names.at_return_address(address.0).into());
            for call in calls.iter() {
                let node = tree.find_or_add_child(at, &call.frame, call.place.as_ref());
                // A cut function counts for its caller.
                if node == at {
                    break 'stack;
                }
                at = node;
            }
        }
        tree.add_amount(at, *held);
        nodes.insert(*of, at);
    }
    let left_out = names.left_out();
    let broken = broken.len() as u64;
    StackTree { heap, vm, left_out, lacking: names.into_lacking(), broken, threads, nodes }
}

/// Returns the distinct addresses of stacks. Walks the stacks twice, so that only these are kept.
fn collect_addresses(totals: &StackTotals, table: &StackTable<'_>) -> HashSet<u64> {
    let frames = totals.keys().flat_map(|of| table.walk_stack(of.stack).frames);
    frames.map(|address| address.0).collect()
}

#[cfg(test)]
mod tests {
    use super::super::stack_table::SlotForm;
    use super::super::stack_table::tests::{ROOT, plain};
    use super::*;
    use unslide_calltree::Amount;

    #[test]
    fn stacks_share_their_callers_whatever_their_threads() {
        let slots =
            [(0, 0), (0x104, ROOT), (0x1010, 1), (0x1020, 2), (0x205, ROOT), (0x1010, 4), (0x9000, 5)];
        let bytes = plain(&slots);
        let heap = |stack| StackMemory { stack, kind: MemoryKind::Heap };
        let pages = StackMemory { stack: 3, kind: MemoryKind::Virtual };
        let amount = |weight| Amount { count: 1, weight };
        let held = [(heap(3), 10), (heap(6), 20), (heap(2), 5), (heap(77), 1), (pages, 4096)];
        let totals = held.into_iter().map(|(of, weight)| (of, amount(weight))).collect();
        let image = ProfileImage {
            name: "Shop".to_owned(),
            path: "/Applications/Shop".to_owned(),
            start: 0x1000,
            end: Some(0x2000),
            ..ProfileImage::default()
        };
        let table = StackTable::new(&bytes, SlotForm::Plain);
        let found = stack_tree(&totals, &table, &[image], &|_| None);
        let folded = found.heap.to_folded();
        assert_eq!(folded, "Shop + 16 5\nShop + 16;0x9000 20\nShop + 16;Shop + 32 10\n??? 1\n");
        assert_eq!(found.vm.to_folded(), "Shop + 16;Shop + 32 4096\n");
        let threads = [0x103, 0x204].map(|thread| found.threads[&thread]);
        assert_eq!(threads.map(|held| (held.heap.weight, held.vm.weight)), [(15, 4096), (20, 0)]);
        assert_eq!(found.broken, 1);
        assert_eq!((found.lacking.len(), found.lacking[0].frames), (1, 2));
    }
}
