//! Keys in the paths of URLs, for clients that send no header: their look-up and their rates. A feature declares a kind of
//! such keys.
//!
//! Logs, traces and metrics name routes by their templates, never by their paths, so a key in a path is in none of them.

mod address_rates;

pub use crate::background::key_cache::Presented;
pub use address_rates::AddressRates;

use super::Keys;
use crate::problem::{Kind, Problem};
use std::time::Duration;
use unslide_store::keys::KeyType;

/// How long a look-up may take: apps give up after 15 seconds, and the broker needs its part of them.
pub const KEY_LOOKUP_TIMEOUT: Duration = Duration::from_secs(4);
/// Seconds after which a request may be sent again that the database did not answer.
const LOOKUP_RETRY_SECONDS: u32 = 30;
/// The longest retry delay that a refusal names, in seconds.
const MAX_RETRY_SECONDS: u64 = 3_600;

/// Returns the problem that there were too many of these things. One more fits after `micros`.
#[must_use]
pub fn rate_problem(things: &str, micros: i64) -> Problem {
    let seconds = micros.max(1).unsigned_abs().div_ceil(1_000_000).min(MAX_RETRY_SECONDS);
    let detail = format!("too many {things}, retry after {seconds} s");
    Problem::new(Kind::RateLimited, detail).retry_after(u32::try_from(seconds).unwrap_or(u32::MAX))
}

/// Finds the key of a request. A text without a correct checksum costs no look-up.
///
/// # Errors
/// The look-up fails or takes more than [`KEY_LOOKUP_TIMEOUT`], and the key does not count in an outage.
pub async fn find_key<K: KeyType>(keys: &Keys, text: &str) -> Result<Option<Presented<K>>, Problem> {
    let storage = &keys.storage;
    limit_look_up(keys.cache.find_key::<K>(&storage.store, &*storage.clock, text)).await
}

async fn limit_look_up<T>(look_up: impl Future<Output = unslide_store::Result<T>>) -> Result<T, Problem> {
    let late = |_| {
        let why = format!("PostgreSQL did not answer within {} s", KEY_LOOKUP_TIMEOUT.as_secs());
        Problem::unavailable(why, LOOKUP_RETRY_SECONDS)
    };
    Ok(tokio::time::timeout(KEY_LOOKUP_TIMEOUT, look_up).await.map_err(late)??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_silent_database_costs_a_key_that_is_not_known_four_seconds() {
        let begin = Instant::now();
        let problem = limit_look_up(pending::<unslide_store::Result<()>>()).await.unwrap_err();
        assert_eq!(problem.kind(), Kind::Unavailable);
        assert_eq!(begin.elapsed(), KEY_LOOKUP_TIMEOUT);
    }
}
