//! The client against a real engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod failures;
mod filters;
mod pages;
mod rows;
mod schema;
mod world;
