//! Up to when this process has heard of every change.

use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Microseconds for which the heartbeat goes on after a request: a process without requests costs the database nothing.
const IN_USE: i64 = 10_000_000;

/// How far the channel of changes has been heard. Times are microseconds of the monotonic clock. Cheap to clone.
#[derive(Clone, Default)]
pub struct AccessChanges(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// Raised by the first request after a while without any.
    wanted: Notify,
}

#[derive(Default)]
struct State {
    heard: Option<Heard>,
    /// Changes so far, those of this process among them.
    count: u64,
    used_at: Option<i64>,
}

/// Every change that was committed between these times has been heard.
#[derive(Clone, Copy)]
struct Heard {
    since: i64,
    until: i64,
}

impl AccessChanges {
    /// A new connection listens since `now`. What came between it and the one before was missed.
    pub fn begin(&self, now: i64) {
        self.0.state.lock().heard = Some(Heard { since: now, until: now });
    }

    /// Every change until `until` was heard, and what it concerns is forgotten.
    pub fn heard_until(&self, until: i64) {
        if let Some(heard) = &mut self.0.state.lock().heard {
            heard.until = heard.until.max(until);
        }
    }

    /// Until when a row that was looked up `at` a time, and not forgotten, is known to be unchanged.
    pub(super) fn confirmed(&self, at: i64) -> i64 {
        let heard = self.0.state.lock().heard.filter(|heard| heard.since <= at);
        heard.map_or(at, |heard| heard.until.max(at))
    }

    /// Counts a change. Who looks a row up compares the number of before with that of after: where they differ, the row may
    /// be the one of before.
    pub(super) fn count(&self) {
        self.0.state.lock().count += 1;
    }

    pub(super) fn counted(&self) -> u64 {
        self.0.state.lock().count
    }

    /// Notes that a request asks for something.
    pub(super) fn used(&self, now: i64) {
        let mut state = self.0.state.lock();
        let in_use = state.is_used(now);
        state.used_at = Some(now);
        drop(state);
        if !in_use {
            self.0.wanted.notify_one();
        }
    }

    /// True where a request came a moment ago.
    pub fn is_used(&self, now: i64) -> bool {
        self.0.state.lock().is_used(now)
    }

    /// Returns with the first request after a while without any.
    pub async fn wanted(&self) {
        self.0.wanted.notified().await;
    }
}

impl State {
    fn is_used(&self, now: i64) -> bool {
        self.used_at.is_some_and(|at| now.saturating_sub(at) < IN_USE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn the_first_request_after_a_while_wakes_the_heartbeat_and_the_others_do_not() {
        let changes = AccessChanges::default();
        assert!(!changes.is_used(0) && changes.wanted().now_or_never().is_none());
        changes.used(0);
        changes.used(1);
        assert!(changes.wanted().now_or_never().is_some());
        changes.used(IN_USE);
        assert!(changes.wanted().now_or_never().is_none());
        assert!(changes.is_used(2 * IN_USE - 1) && !changes.is_used(2 * IN_USE));
        changes.used(2 * IN_USE);
        assert!(changes.wanted().now_or_never().is_some());
    }
}
