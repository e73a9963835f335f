//! Tests of the workspace's shape and of the command line. What needs servers is in `tests/`.

mod commands;
mod layering;
