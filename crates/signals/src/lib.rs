//! Signals beside crashes, without I/O: call trees of samples and hangs, logs of allocations, and graphs of memory.

pub mod calltree;
pub mod capture;
pub mod malloc;
pub mod memory_graph;
pub mod profile;
