//! Changed functions: by the API, on pages and by the command, over builds by a real compiler.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod changes_world;
mod commits;
mod pages;
mod shop;
