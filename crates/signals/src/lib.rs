//! Signals other than crashes, without I/O: call trees of samples and hangs, logs of allocations, memory
//! graphs, and metrics.

#![warn(missing_docs)]

pub mod calltree;
pub mod event;
pub mod malloc;
pub mod memory_graph;
pub mod metrics;
pub mod profile;
