//! Costs, statistics, and sketches of counts and quantiles.

pub mod cost;
pub(super) mod distinct;
pub(super) mod quantile;
pub(super) mod stats;
