//! Limits of a tenant: units per second, concurrent requests, bytes in memory, and database connections.

pub mod capacity;
pub mod charge;
pub mod pace;
pub mod permits;
pub mod request_limits;
pub mod slot;
