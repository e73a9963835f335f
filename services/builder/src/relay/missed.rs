//! Searches for wakes that were missed, for any reason.

use crate::relay::resources::RelayResources;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use unslide_store::wakes;

/// Delay before the first search, so that builders that restart often don't search all the time.
const FIRST_SEARCH_DELAY: Duration = Duration::from_secs(10);
/// Interval between two searches: each reads all waits.
const SEARCH_INTERVAL: Duration = Duration::from_secs(3_600);
/// Pause after a search that failed.
const FAILED_SEARCH_BACKOFF: Duration = Duration::from_secs(60);

/// The searches of this process. It outlives the relay, which restarts while Kafka is unavailable.
pub(crate) struct MissedSearch {
    /// Time of the next search.
    due: Instant,
}

impl MissedSearch {
    pub(crate) fn new() -> MissedSearch {
        MissedSearch { due: Instant::now() + FIRST_SEARCH_DELAY }
    }

    /// Searches until it is dropped.
    pub(crate) async fn run(&mut self, resources: &RelayResources) {
        loop {
            self.wait_until_due().await;
            match wakes::missed::add_missed_wakes(&resources.storage.store).await {
                Ok(found) => {
                    resources.metrics.missed_wakes.set(i64::try_from(found).unwrap_or(i64::MAX));
                    if found > 0 {
                        tracing::warn!(
                            waits = found,
                            "reports waited for symbols that are ready; they are requested now"
                        );
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %error, "missed wakes could not be looked for");
                    self.due = Instant::now() + FAILED_SEARCH_BACKOFF;
                }
            }
        }
    }

    /// Waits until a search is due. A search that is dropped half-way counts as done: otherwise a relay that
    /// ends soon would repeat it at every start.
    async fn wait_until_due(&mut self) {
        sleep_until(self.due).await;
        self.due = Instant::now() + SEARCH_INTERVAL;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_relay_that_ends_and_begins_again_looks_no_sooner() {
        let mut search = MissedSearch::new();
        let mut looks = 0;
        // Ten hours of relays that live for half a minute each.
        for _ in 0..1_200 {
            let relay = async {
                loop {
                    search.wait_until_due().await;
                    looks += 1;
                }
            };
            assert!(timeout(Duration::from_secs(30), relay).await.is_err());
        }
        assert_eq!(looks, 10);
    }
}
