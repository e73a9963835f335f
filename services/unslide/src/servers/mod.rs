//! Commands of operators, which reach the servers themselves.

pub mod audit;
pub mod health;
pub mod key;
pub mod migrate;
pub mod tenant;
