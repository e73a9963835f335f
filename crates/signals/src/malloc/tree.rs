//! The memory of stacks as a call tree: who allocates.

use super::stack_table::{StackEnd, StackTable};
use super::totals::StackTotals;
use crate::calltree::{Amount, CallFrame, CallTree, FrameOrigin, NodeIndex};
use crate::profile::{FrameNames, NamedCall, ProfileImage};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use unslide_model::DebugId;
use unslide_symbolicate::{ImageOutcome, ImageSymbols};

/// The call tree of stacks.
#[derive(Clone, Debug)]
pub struct StackTree {
    /// The tree. Its unit is bytes, and counts are of blocks.
    pub tree: CallTree,
    /// The images with frames that have no names for want of symbols.
    pub lacking: Vec<ImageOutcome>,
    /// Addresses that have no names because there are too many.
    pub left_out: u64,
    /// Stacks that are broken in the table; their frames up to there are in the tree.
    pub broken: u64,
    /// The bytes of each thread, by its number.
    pub threads: HashMap<u64, Amount>,
    /// The innermost frame of each stack.
    pub nodes: HashMap<u64, NodeIndex>,
}

/// The tree of the memory of stacks. Threads are merged in it. All frames are return addresses.
#[must_use]
pub fn stack_tree<'s>(
    totals: &StackTotals,
    table: &StackTable<'_>,
    images: &[ProfileImage],
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> StackTree {
    let mut tree = CallTree::new("bytes");
    let (mut broken, mut threads) = (0, HashMap::new());
    let mut nodes = HashMap::with_capacity(totals.len());
    let addresses = addresses(totals, table);
    let mut names = FrameNames::of(images, addresses, symbols);
    let mut known: HashMap<u64, Rc<[NamedCall]>> = HashMap::new();
    // Nodes lie in the order of the stacks, so that the same input makes the same tree.
    let mut stacks: Vec<_> = totals.iter().collect();
    stacks.sort_unstable_by_key(|(stack, _)| **stack);
    for (stack, held) in stacks {
        let walk = table.walk(*stack);
        broken += u64::from(walk.end != StackEnd::Root);
        if let Some(thread) = walk.thread {
            *threads.entry(thread).or_insert_with(Amount::default) += held.total();
        }
        let mut at = CallTree::ROOT;
        if walk.frames.is_empty() {
            at = tree.child(at, &CallFrame::function("???", "", FrameOrigin::Unknown), None);
        }
        'stack: for address in walk.frames.iter().rev() {
            let calls = known.entry(address.0).or_insert_with(|| names.at_return_address(address.0).into());
            for call in calls.iter() {
                let node = tree.child(at, &call.frame, call.place.as_ref());
                // What is cut counts for its caller.
                if node == at {
                    break 'stack;
                }
                at = node;
            }
        }
        tree.add(at, held.total());
        nodes.insert(*stack, at);
    }
    let left_out = names.left_out();
    StackTree { tree, left_out, lacking: names.into_lacking(), broken, threads, nodes }
}

/// The distinct addresses of stacks. Stacks are walked twice, so that no more than these are kept.
fn addresses(totals: &StackTotals, table: &StackTable<'_>) -> HashSet<u64> {
    let frames = totals.keys().flat_map(|stack| table.walk(*stack).frames);
    frames.map(|address| address.0).collect()
}

#[cfg(test)]
mod tests {
    use super::super::stack_table::SlotForm;
    use super::super::stack_table::tests::{ROOT, plain};
    use super::super::totals::HeldMemory;
    use super::*;

    #[test]
    fn stacks_share_their_callers_whatever_their_threads() {
        let slots =
            [(0, 0), (0x104, ROOT), (0x1010, 1), (0x1020, 2), (0x205, ROOT), (0x1010, 4), (0x9000, 5)];
        let bytes = plain(&slots);
        let heap = |weight| HeldMemory { heap: Amount { count: 1, weight }, ..HeldMemory::default() };
        let totals = StackTotals::from([(3, heap(10)), (6, heap(20)), (2, heap(5)), (77, heap(1))]);
        let image = ProfileImage {
            name: "Shop".to_owned(),
            path: "/Applications/Shop".to_owned(),
            start: 0x1000,
            end: Some(0x2000),
            ..ProfileImage::default()
        };
        let table = StackTable::new(&bytes, SlotForm::Plain);
        let found = stack_tree(&totals, &table, &[image], &|_| None);
        assert_eq!(found.tree.folded(), "Shop + 16 5\nShop + 16;0x9000 20\nShop + 16;Shop + 32 10\n??? 1\n");
        assert_eq!((found.broken, found.threads[&0x103].weight, found.threads[&0x204].weight), (1, 15, 20));
        assert_eq!((found.lacking.len(), found.lacking[0].frames), (1, 2));
    }
}
