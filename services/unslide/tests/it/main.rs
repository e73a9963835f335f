//! Tests of the workspace's shape and of the command line. What needs servers is in `tests/`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod api;
mod commands;
mod documents;
mod flame;
mod jetsam;
mod layering;
mod malloc_log;
mod memory_graph;
mod metrics;
mod names;
mod output;
mod promises;
mod swift;
mod symbolicate;
mod upload;
