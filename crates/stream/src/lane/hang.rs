//! Notices a call into the Kafka client that does not come back. The thread that made it cannot, so another
//! task watches it.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Returns how long a call may take. A broker that answers slowly makes calls long too, but each is given up
/// and made again by the time that a transaction has; only one that never comes back takes so long.
pub(super) fn call_limit(transaction: Duration) -> Duration {
    3 * transaction + CALL_TIMEOUT_MARGIN
}

/// For time-outs of calls that don't depend on the transaction's.
const CALL_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);
/// How long a failed connection to a broker excuses a call. librdkafka has no time-out for the search of a group's coordinator: a
/// call that needs it comes back when the broker does. The client logs a broker that stays away at least every 30 seconds.
const BROKER_AWAY_INTERVAL: Duration = Duration::from_secs(60);
/// How often the watchdog looks.
const WATCHDOG_INTERVAL: Duration = Duration::from_secs(1);

/// The call that is under way.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Number and name of the call; numbers are never used twice.
    call: Mutex<(u64, Option<&'static str>)>,
    /// Number of connections to brokers that failed.
    failed_connections: AtomicU64,
}

/// Ends the call when it is dropped.
pub(super) struct Call<'a>(&'a Watch);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.call.lock().1 = None;
    }
}

impl Watch {
    /// Says that `call` begins; it ends when the returned value is dropped. Calls don't nest.
    pub(super) fn enter_call(&self, call: &'static str) -> Call<'_> {
        let mut current = self.call.lock();
        *current = (current.0 + 1, Some(call));
        Call(self)
    }

    /// Says that a connection to a broker failed.
    pub(super) fn record_failed_connection(&self) {
        self.failed_connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until one call has taken `limit`, without the time in which a broker was away. Time is counted in ticks, so that a
    /// process that was halted and continues does not count as hung.
    pub(super) async fn wait_for_overrun(&self, limit: Duration) -> &'static str {
        let mut looks = tokio::time::interval(WATCHDOG_INTERVAL);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut seen, mut taken) = (0, Duration::ZERO);
        let (mut failed, mut excused) = (0, Duration::ZERO);
        loop {
            looks.tick().await;
            let (number, call) = *self.call.lock();
            excused = excused.saturating_sub(WATCHDOG_INTERVAL);
            let failures = self.failed_connections.load(Ordering::Relaxed);
            if failures != std::mem::replace(&mut failed, failures) {
                excused = BROKER_AWAY_INTERVAL;
            }
            match call {
                Some(_) if number == seen && !excused.is_zero() => {}
                Some(call) if number == seen => {
                    taken += WATCHDOG_INTERVAL;
                    if taken >= limit {
                        return call;
                    }
                }
                _ => (seen, taken) = (number, Duration::ZERO),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn many_short_calls_are_no_long_one() {
        let watch = Arc::new(Watch::default());
        let watched = Arc::clone(&watch);
        let overrun = tokio::spawn(async move { watched.wait_for_overrun(Duration::from_secs(2)).await });
        for _ in 0..20 {
            let call = watch.enter_call("short");
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(call);
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!overrun.is_finished());
        let _call = watch.enter_call("long");
        assert_eq!(overrun.await.unwrap(), "long");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_may_wait_as_long_as_a_broker_is_away() {
        let watch = Arc::new(Watch::default());
        let watched = Arc::clone(&watch);
        let overrun = tokio::spawn(async move { watched.wait_for_overrun(Duration::from_secs(5)).await });
        let _call = watch.enter_call("send offsets");
        for _ in 0..20 {
            watch.record_failed_connection();
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        assert!(!overrun.is_finished());
        tokio::time::sleep(BROKER_AWAY_INTERVAL).await;
        assert_eq!(
            overrun.await.unwrap(),
            "send offsets",
            "it does not come back although every broker is there"
        );
    }
}
