//! What is counted.

pub mod cost;
pub(super) mod distinct;
pub(super) mod figures;
pub(super) mod quantile;
