//! Sign-in at an identity provider: a small one that signs real tokens, and an api with the console.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod failures;
mod forms;
mod leavers;
mod links;
mod person;
mod provider;
mod refusals;
mod settings;
mod sign_out;
