//! Logs of allocations, as malloc's stack logging writes them: events, and a table of the stacks that they
//! come from.

mod checkpoints;
mod event;
mod history;
mod layout_check;
mod live;
mod records;
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
pub use layout_check::{UnclearLayout, WrongLayout};
pub use live::{LiveBlock, LiveSet};
pub use records::{AddressRecords, RecordList, RecordRow};
pub use replay::{EventCounts, Replay, SortedByAddress};
pub use stack_table::{SlotForm, StackEnd, StackTable, StackWalk};
pub(crate) use summary::find_stack_nodes;
pub use summary::{GrowthRow, LogAnswer, LogQuestion, MemorySummary, StackRow, TagRow, ThreadRow};
pub use table_check::StackTableError;
pub use totals::{
    HeldMemory, LogTotals, MemoryKind, MemoryRow, StackGrowth, StackMemory, StackTotals, list_growth,
};
pub use tree::{StackTree, stack_tree};
pub use vm_tag::vm_tag_name;
