//! Logs of allocations, as malloc's stack logging writes them: events, and a table of the stacks that they
//! come from.

mod event;
mod live;
mod replay;
mod stack_table;
mod totals;
mod tree;
mod vm_tag;

pub use event::{EventKind, EventLayout, EventLog, MallocEvent, NoEvent};
pub use live::{LiveBlock, LiveSet};
pub use replay::{EventCounts, Replay, SortedByAddress};
pub use stack_table::{SlotForm, StackEnd, StackTable, StackWalk};
pub use totals::{HeldMemory, LogTotals, StackGrowth, StackTotals, growth};
pub use tree::{StackTree, stack_tree};
pub use vm_tag::vm_tag_name;
