//! Any bytes as a log of allocations with its table of stacks: replayed in any layout, and every stack ends.

use unslide_captures_formats::malloc::{
    Checkpoints, EventLayout, EventLog, Replay, SlotForm, StackTable, list_growth, stack_tree,
};

pub fn check(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let layouts = [EventLayout::Disk64, EventLayout::Disk32, EventLayout::Enumerator, EventLayout::Index];
    let layout = layouts[usize::from(choice & 3)];
    let form = if choice & 4 == 0 { SlotForm::Plain } else { SlotForm::Counted };
    let (events, slots) = data.split_at(data.len() / 2);
    let log = EventLog::new(events, layout);
    let table = StackTable::new(slots, form);
    let _ = StackTable::from_bytes(slots, form);
    let totals = log.sum_events();
    let Ok(mut replay) = Replay::new(log) else { return };
    replay.advance_to(log.len() / 2);
    let before = replay.live().by_stack();
    replay.advance_to(usize::MAX);
    let counts = replay.counts();
    assert_eq!((counts.allocations, counts.damaged), (totals.counts.allocations, totals.counts.damaged));
    let after = replay.live().by_stack();
    assert!(list_growth(&before, &after).len() <= before.len() + after.len());
    if let Ok(mut checkpoints) = Checkpoints::new(log) {
        assert_eq!(checkpoints.replay_to(usize::MAX).live().by_stack(), after);
        assert_eq!(checkpoints.replay_to(log.len() / 2).live().by_stack(), before);
    }
    let tree = stack_tree(&after, &table, &[], &|_| None);
    assert_eq!(tree.nodes.len(), after.len());
    let weights = after.values().fold(0_u64, |sum, held| sum.saturating_add(held.weight));
    let trees = tree.heap.total().weight.saturating_add(tree.vm.total().weight);
    assert_eq!(weights, trees);
    assert!(tree.broken <= after.len() as u64);
    let mut last = 0;
    for (address, range) in replay.live().vm_ranges() {
        assert!(address >= last && range.size > 0);
        last = address + range.size;
    }
}
