//! The requests of identity providers, with a token of a tenant.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod directory;
mod entra;
mod limits;
mod okta;
mod tokens;
