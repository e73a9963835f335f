//! The keys and tenants in use, and until when each is known to be unchanged.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;
use unslide_store::access_stamps::AccessEntry;

/// Microseconds for which an entry is in use after a request. A process without requests costs the database
/// nothing.
const IN_USE_MICROS: i64 = 10_000_000;

/// The latest stamps from the database for the entries in use. Times are microseconds of the monotonic clock.
/// Cheap to clone.
#[derive(Clone, Default)]
pub struct AccessChanges(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// Notified by the first request after a while without any.
    wanted: Notify,
}

#[derive(Default)]
struct State {
    entries: HashMap<AccessEntry, WatchedEntry>,
    /// Number of changes that this process made itself.
    own_changes: u64,
}

struct WatchedEntry {
    used_at: i64,
    /// None until the first answer, and for an entry that does not exist.
    stamp: Option<i64>,
    /// Every change that was committed between `since` and `until` is known.
    since: Option<i64>,
    until: i64,
    /// Send time of the query that first found a different stamp.
    changed_at: Option<i64>,
}

impl AccessChanges {
    /// Returns until when a row that was looked up at time `at` is known to be unchanged. Returns None if it
    /// has changed.
    pub(super) fn confirmed_until(&self, entry: &AccessEntry, at: i64) -> Option<i64> {
        let state = self.0.state.lock();
        let Some(watched) = state.entries.get(entry) else { return Some(at) };
        if watched.changed_at.is_some_and(|changed| changed > at) {
            return None;
        }
        Some(watched.since.filter(|since| *since <= at).map_or(at, |_| watched.until.max(at)))
    }

    /// Records that a request uses an entry.
    pub(super) fn record_use(&self, entry: AccessEntry, now: i64) {
        let mut state = self.0.state.lock();
        let is_first = state.entries.is_empty();
        let watched = state.entries.entry(entry);
        watched.and_modify(|watched| watched.used_at = now).or_insert(WatchedEntry {
            used_at: now,
            stamp: None,
            since: None,
            until: now,
            changed_at: None,
        });
        drop(state);
        if is_first {
            self.0.wanted.notify_one();
        }
    }

    /// Returns the entries that requests have used in the last ten seconds, and forgets the others.
    pub(super) fn entries_in_use(&self, now: i64) -> Vec<AccessEntry> {
        let entries = &mut self.0.state.lock().entries;
        entries.retain(|_, watched| now.saturating_sub(watched.used_at) < IN_USE_MICROS);
        entries.keys().cloned().collect()
    }

    /// Applies the stamps of the entries in `asked`, from a query that was sent at time `at`.
    pub(super) fn apply(&self, asked: &[AccessEntry], stamps: &HashMap<AccessEntry, i64>, at: i64) {
        let mut state = self.0.state.lock();
        for entry in asked {
            let Some(watched) = state.entries.get_mut(entry) else { continue };
            let stamp = stamps.get(entry).copied();
            if watched.since.is_some() && watched.stamp != stamp {
                watched.changed_at = Some(at);
            }
            watched.stamp = stamp;
            watched.since.get_or_insert(at);
            watched.until = at;
        }
    }

    /// Counts a change by this process. A look-up compares the count before it with the count after it: if
    /// they differ, the row may be outdated.
    pub(super) fn count_own(&self) {
        self.0.state.lock().own_changes += 1;
    }

    pub(super) fn own_changes(&self) -> u64 {
        self.0.state.lock().own_changes
    }

    /// Waits for the first request after a while without any.
    pub(super) async fn wait_for_use(&self) {
        self.0.wanted.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use unslide_store::Uuid;

    const ENTRY: AccessEntry = AccessEntry::Key(Uuid::nil());

    fn answer(changes: &AccessChanges, stamp: Option<i64>, at: i64) {
        let stamps = stamp.map(|stamp| (ENTRY, stamp)).into_iter().collect();
        changes.apply(&changes.entries_in_use(at), &stamps, at);
    }

    #[test]
    fn the_first_request_after_a_while_wakes_the_questions_and_the_others_do_not() {
        let changes = AccessChanges::default();
        assert!(changes.entries_in_use(0).is_empty() && changes.wait_for_use().now_or_never().is_none());
        changes.record_use(ENTRY, 0);
        changes.record_use(ENTRY, 1);
        assert!(changes.wait_for_use().now_or_never().is_some());
        changes.record_use(ENTRY, IN_USE_MICROS);
        assert!(changes.wait_for_use().now_or_never().is_none());
        assert_eq!(changes.entries_in_use(2 * IN_USE_MICROS - 1), [ENTRY]);
        assert!(changes.entries_in_use(2 * IN_USE_MICROS).is_empty());
        changes.record_use(ENTRY, 2 * IN_USE_MICROS);
        assert!(changes.wait_for_use().now_or_never().is_some());
    }

    /// Proves: keys
    #[test]
    fn a_stamp_confirms_rows_that_were_read_after_the_first_one_and_before_a_change() {
        let changes = AccessChanges::default();
        assert_eq!(changes.confirmed_until(&ENTRY, 5), Some(5));
        changes.record_use(ENTRY, 0);
        answer(&changes, Some(1), 10);
        assert_eq!(changes.confirmed_until(&ENTRY, 5), Some(5), "it may have changed before the first stamp");
        answer(&changes, Some(1), 20);
        assert_eq!(changes.confirmed_until(&ENTRY, 12), Some(20));
        answer(&changes, Some(2), 30);
        assert_eq!(changes.confirmed_until(&ENTRY, 25), None);
        assert_eq!(changes.confirmed_until(&ENTRY, 31), Some(31));
        answer(&changes, Some(2), 40);
        assert_eq!(changes.confirmed_until(&ENTRY, 31), Some(40));
        answer(&changes, None, 50);
        assert_eq!(changes.confirmed_until(&ENTRY, 31), None, "it was deleted");
    }
}
