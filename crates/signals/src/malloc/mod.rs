//! Logs of allocations, as malloc's stack logging writes them: events, and a table of the stacks that they
//! come from.

mod checkpoints;
mod event;
mod history;
mod live;
mod replay;
mod stack_table;
mod summary;
mod table_check;
mod totals;
mod tree;
mod vm_tag;

pub use checkpoints::Checkpoints;
pub use event::{EventKind, EventLayout, EventLog, MallocEvent, NoEvent};
pub use history::{MemoryHistory, StackHistory};
pub use live::{LiveBlock, LiveSet};
pub use replay::{EventCounts, Replay, SortedByAddress};
pub use stack_table::{SlotForm, StackEnd, StackTable, StackWalk};
pub use summary::{GrowthRow, LogAnswer, LogQuestion, MemorySummary, StackRow, TagRow, ThreadRow};
pub use table_check::StackTableError;
pub use totals::{
    HeldMemory, LogTotals, MemoryKind, MemoryRow, StackGrowth, StackMemory, StackTotals, growth,
};
pub use tree::{StackTree, stack_tree};
pub use vm_tag::vm_tag_name;

#[cfg(test)]
pub(crate) mod tests {
    use super::event::EventLayout;
    use super::stack_table::tests::{ROOT, plain};

    /// A record in the layout `Index`.
    pub(crate) fn record(flags: u32, at: u64, size: u64, stack: u64) -> Vec<u8> {
        super::event::tests::record(EventLayout::Index, flags, at, size, stack)
    }

    /// Events in the layout `Index`, and a table with two stacks in an image at 0x1000.
    pub(crate) fn small_log() -> (Vec<u8>, Vec<u8>) {
        let events = [(2, 0x6000_0030, 100, 2), (2, 0x6000_0020, 200, 3), (4, 0x5000_0000, 0, 0)];
        let events =
            events.iter().flat_map(|(flags, at, size, stack)| record(*flags, *at, *size, *stack)).collect();
        (events, plain(&[(0, 0), (0x104, ROOT), (0x1010, 1), (0x1020, 1)]))
    }
}
