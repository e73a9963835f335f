//! Notices a call into the Kafka client that does not come back. The thread that made it cannot, so another
//! task watches it.

use parking_lot::Mutex;
use std::time::Duration;

/// Returns how long a call may take. A broker that answers slowly makes calls long too, but each is given up
/// and made again by the time that a transaction has; only one that never comes back takes so long.
pub(super) fn call_limit(transaction: Duration) -> Duration {
    3 * transaction + CALL_TIMEOUT_MARGIN
}

/// For time-outs of calls that don't depend on the transaction's.
const CALL_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);
/// How often the watchdog looks.
const WATCHDOG_INTERVAL: Duration = Duration::from_secs(1);

/// The call that is under way.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Number and name of the call; numbers are never used twice.
    call: Mutex<(u64, Option<&'static str>)>,
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

    /// Waits until one call has taken `limit`. Time is counted in ticks, so that a process that was halted
    /// and continues does not count as hung.
    pub(super) async fn wait_for_overrun(&self, limit: Duration) -> &'static str {
        let mut looks = tokio::time::interval(WATCHDOG_INTERVAL);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut seen, mut taken) = (0, Duration::ZERO);
        loop {
            looks.tick().await;
            let (number, call) = *self.call.lock();
            match call {
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
}
