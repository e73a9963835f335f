//! Keys in the paths of URLs, for clients that send no header. A feature has a kind of such keys with a prefix of its own.
//!
//! Logs, traces and metrics name routes by their templates, never by their paths, so a key in a path is in none of them.
//! `text` has the text of a key, `known_keys` the keys that were looked up, `address_rates` the rates of addresses.

mod address_rates;
mod known_keys;
mod text;

pub use address_rates::AddressRates;
pub use known_keys::{KEY_LOOKUP_TIMEOUT, KnownKeys};
pub use text::{PathKey, PathKeyKind, RANDOM_BYTES};

use crate::problem::{Kind, Problem};

/// The longest retry delay that a refusal names, in seconds.
const MAX_RETRY_SECONDS: u64 = 3_600;

/// Returns the problem that there were too many of these things. One more fits after `micros`.
#[must_use]
pub fn rate_problem(things: &str, micros: i64) -> Problem {
    let seconds = micros.max(1).unsigned_abs().div_ceil(1_000_000).min(MAX_RETRY_SECONDS);
    let detail = format!("too many {things}, retry after {seconds} s");
    Problem::new(Kind::RateLimited, detail).retry_after(u32::try_from(seconds).unwrap_or(u32::MAX))
}
