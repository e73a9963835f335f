//! Commands that need no server.

pub mod explain;
pub mod flame;
pub mod jetsam;
pub mod malloc_log;
pub mod memory_graph;
pub mod metrics;
pub mod packed;
pub mod records;
pub mod swift;
pub mod symbolicate;
