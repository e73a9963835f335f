//! Sequential tests over counts of sessions and crashes, pure: whether a bug is fixed, and whether a release is worse. And a test of what
//! the installations that met a bug have in common, which a page makes once.
//!
//! Each test may be read on any day, and as often as a reader wants. The chance of a wrong verdict over all readings together is at most
//! [`ERROR_LIMIT`]: the evidence is a mixture of likelihood ratios, which exceeds `1 / error` with at most that chance (Ville's inequality).
//! The mixtures are finite sums, so that no special function is needed. `statrs` has distributions, and tests with a fixed number
//! of observations only: none of them may be read every day. The contrast takes its distribution from there.
//!
//! The tests assume that crashes of different sessions are independent.

mod contrast;
mod count;
mod evidence;
mod fix;
mod release;

pub use contrast::{CRASHED_FLOOR, FALSE_DISCOVERY_RATE, ValueCounts, find_common_values};
pub use count::format_count;
pub use fix::{FixEvidence, FixVerdict, VersionCounts, judge_fix};
pub use release::{
    DayComparison, MEASURES_LIMIT, MeasureEvidence, RARE_RATE, ReleaseEvidence, ReleaseVerdict,
    TOLERATED_MULTIPLE, WORSE_MULTIPLE, judge_release,
};

/// The chance of a wrong verdict, over all readings of one test.
pub const ERROR_LIMIT: f64 = 0.01;
