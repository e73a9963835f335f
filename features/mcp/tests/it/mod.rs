//! The protocol over HTTP, and the access of assistants by OAuth, on an api with the console.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod assistant;
mod attacks;
mod documents;
mod endpoint;
mod grants;
mod requests;
