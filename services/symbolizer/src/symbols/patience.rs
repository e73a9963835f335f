//! Time that a batch waits for symcaches.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Time limit for each download of a batch, counted from the download's beginning.
#[derive(Clone, Debug)]
pub struct Patience {
    /// Time limit that applies even if records wait behind the batch.
    least: Duration,
    /// Time limit that applies while no records wait behind the batch.
    most: Duration,
    /// True while records wait behind the batch.
    queued: watch::Sender<bool>,
}

impl Patience {
    /// Returns a time limit that does not depend on records behind the batch.
    #[must_use]
    pub fn fixed(wait: Duration) -> Patience {
        Patience::while_idle(wait, wait)
    }

    /// Returns the time limit `least`, extended up to `most` while no records wait behind the batch.
    #[must_use]
    pub fn while_idle(least: Duration, most: Duration) -> Patience {
        Patience { least, most: most.max(least), queued: watch::Sender::new(false) }
    }

    /// Returns the shorter time limit, for a batch with reports that wait for nothing or belong to other
    /// tenants.
    #[must_use]
    pub fn shortest(&self) -> Patience {
        Patience::fixed(self.least)
    }

    /// Returns the longest time for which a batch delays the reports behind it.
    #[must_use]
    pub fn least(&self) -> Duration {
        self.least
    }

    /// Sets whether records wait behind the batch now.
    pub fn set_queued(&self, waits: bool) {
        self.queued.send_if_modified(|queued| std::mem::replace(queued, waits) != waits);
    }

    /// Returns true if, at `now`, the batch no longer waits for a download that began at `begun`.
    pub(super) fn is_over(&self, begun: Instant, now: Instant) -> bool {
        begun + if *self.queued.borrow() { self.least } else { self.most } <= now
    }

    /// Waits until the time limit of a download that began at `begun` is over.
    pub(super) async fn wait_until_over(&self, begun: Instant) {
        sleep_until(begun + self.least).await;
        let mut queued = self.queued.subscribe();
        // Both results have the same meaning: the time is up, or other records wait.
        let _ = timeout_at(begun + self.most, queued.wait_for(|queued| *queued)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: fairness
    #[tokio::test(start_paused = true)]
    async fn the_longer_time_ends_when_records_come_and_the_shorter_does_not() {
        let (least, most) = (Duration::from_millis(200), Duration::from_millis(700));
        let patience = Patience::while_idle(least, most);
        let took = async |patience: &Patience, begun: Instant| {
            let now = Instant::now();
            patience.wait_until_over(begun).await;
            now.elapsed()
        };
        let begun = Instant::now();
        assert_eq!(took(&patience, begun).await, most);
        assert!(patience.is_over(begun, Instant::now()));
        assert_eq!(took(&patience.shortest(), Instant::now()).await, least);

        patience.set_queued(true);
        assert_eq!(took(&patience, Instant::now()).await, least);
        patience.set_queued(false);
        let arrival = Duration::from_millis(300);
        let begun = Instant::now();
        tokio::join!(patience.wait_until_over(begun), async {
            tokio::time::sleep(arrival).await;
            assert!(!patience.is_over(begun, Instant::now()));
            patience.set_queued(true);
        });
        assert_eq!(begun.elapsed(), arrival);
        assert!(patience.is_over(begun, Instant::now()));
    }
}
