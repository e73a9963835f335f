//! Limits of a tenant: units per second, concurrent requests, bytes in memory, and database connections.

pub mod answers;
pub mod charge;
pub mod pace;
pub mod permits;
pub mod slot;
pub mod transactions;
