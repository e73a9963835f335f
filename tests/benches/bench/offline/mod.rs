//! What needs no server: the core, the builder's work, and the readers of other files.

pub mod builds;
pub mod bulk;
pub mod core;
pub mod grouping;
pub mod malloc;
pub mod memory_graph;
pub mod metrics;
