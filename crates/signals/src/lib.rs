//! Signals beside crashes, without I/O: call trees of samples and hangs, and logs of allocations.

pub mod calltree;
pub mod capture;
pub mod malloc;
pub mod profile;
