//! Tests of the workspace's shape and of the command line. What needs servers is in `tests/`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod api;
mod commands;
mod following;
mod offline;
mod output;
mod profiles;
mod suspects;
mod upload;
mod workspace;
