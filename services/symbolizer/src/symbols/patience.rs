//! How long a batch waits for symcaches.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The time that each download of a batch has, from its beginning.
#[derive(Clone, Debug)]
pub struct Patience {
    /// The time that holds whatever waits behind the batch.
    least: Duration,
    /// The time that holds while nothing waits behind it.
    most: Duration,
    /// True while records wait behind the batch.
    queued: watch::Sender<bool>,
}

impl Patience {
    /// The same time, whatever waits.
    #[must_use]
    pub fn fixed(wait: Duration) -> Patience {
        Patience::while_idle(wait, wait)
    }

    /// `least`, and up to `most` while nothing waits behind the batch.
    #[must_use]
    pub fn while_idle(least: Duration, most: Duration) -> Patience {
        Patience { least, most: most.max(least), queued: watch::Sender::new(false) }
    }

    /// The shorter time alone, for a batch with reports that wait for nothing or are other tenants'.
    #[must_use]
    pub fn shortest(&self) -> Patience {
        Patience::fixed(self.least)
    }

    /// The time that a batch takes from the reports behind it, at most.
    #[must_use]
    pub fn least(&self) -> Duration {
        self.least
    }

    /// Says whether records wait behind the batch now.
    pub fn queued(&self, waits: bool) {
        self.queued.send_if_modified(|queued| std::mem::replace(queued, waits) != waits);
    }

    /// True where the batch waits no longer, at `now`, for a download that began at `begun`.
    pub(super) fn is_over(&self, begun: Instant, now: Instant) -> bool {
        begun + if *self.queued.borrow() { self.least } else { self.most } <= now
    }

    /// Returns when the time of a download that began at `begun` is over.
    pub(super) async fn over(&self, begun: Instant) {
        sleep_until(begun + self.least).await;
        let mut queued = self.queued.subscribe();
        // Both ends mean the same: the time is up, or others wait.
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
            patience.over(begun).await;
            now.elapsed()
        };
        let begun = Instant::now();
        assert_eq!(took(&patience, begun).await, most);
        assert!(patience.is_over(begun, Instant::now()));
        assert_eq!(took(&patience.shortest(), Instant::now()).await, least);

        patience.queued(true);
        assert_eq!(took(&patience, Instant::now()).await, least);
        patience.queued(false);
        let arrival = Duration::from_millis(300);
        let begun = Instant::now();
        tokio::join!(patience.over(begun), async {
            tokio::time::sleep(arrival).await;
            assert!(!patience.is_over(begun, Instant::now()));
            patience.queued(true);
        });
        assert_eq!(begun.elapsed(), arrival);
        assert!(patience.is_over(begun, Instant::now()));
    }
}
