//! What a tenant may use: units a second, concurrent requests, bytes in memory, connections to the
//! database.

pub mod answers;
pub mod charge;
pub mod pace;
pub mod permits;
pub mod transactions;
