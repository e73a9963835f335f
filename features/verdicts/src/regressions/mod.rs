//! Regressions by verdict: a resolved group waits for its verdict before it comes back, so that one late report reopens nothing.
//!
//! `hook` decides in the transaction that stores the report whether a group waits, and `judge` looks at those that wait.

mod hook;
mod judge;

pub use hook::{keep_resolved, release_returned};
pub use judge::RegressionJudge;
