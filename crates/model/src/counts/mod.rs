//! What is counted.

pub mod cost;
pub(super) mod distinct;
pub(super) mod quantile;
pub(super) mod stats;
