//! Shared parts of tests: addresses of the real servers, and generated input.

#![warn(missing_docs)]

#[cfg(feature = "databases")]
pub mod databases;
pub mod fixtures;
pub mod macho;
pub mod memory;
pub mod reports;
pub mod servers;
mod splice;
pub mod statements;

pub use splice::splice;
