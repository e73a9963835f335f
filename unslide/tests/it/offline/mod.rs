//! Commands that work on files and need no server.

mod atos;
mod explain;
mod flame;
mod jetsam;
mod malloc_log;
mod memory_graph;
mod metrics;
mod swift;
mod symbolicate;
mod variables;
