//! Cache of rows that were looked up recently. Each row is used while it is known to be unchanged.

use super::changes::AccessChanges;
use lru::LruCache;
use parking_lot::Mutex;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tracing::Instrument;
use unslide_model::{Clock, TenantId};
use unslide_store::access_stamps::AccessEntry;

/// Microseconds for which a row counts after a look-up or a stamp confirmed it.
const FRESH: i64 = 1_000_000;
/// The same while the database does not answer.
const FRESH_IN_OUTAGE: i64 = 30_000_000;
/// Microseconds after which a row is always looked up again: stamps do not cover a key's last use.
const LONGEST: i64 = 300_000_000;
/// How long a request waits for the database if its row is cached.
const LOOK_UP_TIMEOUT: Duration = Duration::from_millis(300);
/// Microseconds between two look-ups of cached rows while the database does not answer.
const LOOK_UP_INTERVAL_IN_OUTAGE: i64 = 1_000_000;

/// A row that can be cached.
pub trait RecentRow: Clone + Send + 'static {
    /// Returns the entry with the stamp that changes with the row.
    fn entry(&self) -> AccessEntry;

    /// Returns the tenant of the row. A change of the tenant removes the row from the cache.
    fn tenant(&self) -> &TenantId;

    /// Returns true if the row has expired.
    fn is_over(&self, _now: OffsetDateTime) -> bool {
        false
    }
}

/// Rows of one kind. Cheap to clone.
pub struct RecentRows<K, R> {
    remembered: Arc<Mutex<Remembered<K, R>>>,
    changes: AccessChanges,
}

impl<K, R> Clone for RecentRows<K, R> {
    fn clone(&self) -> RecentRows<K, R> {
        RecentRows { remembered: self.remembered.clone(), changes: self.changes.clone() }
    }
}

struct Remembered<K, R> {
    rows: LruCache<K, Known<R>>,
    /// The time of the next look-up of a cached row during an outage. `None` if the last look-up was
    /// answered.
    ask_again_at: Option<i64>,
}

#[derive(Clone)]
struct Known<R> {
    row: R,
    /// Microseconds of the monotonic clock when its look-up began.
    at: i64,
    /// Until when it is known to be unchanged.
    confirmed: i64,
}

impl<K: Clone + Eq + Hash + Send + 'static, R: RecentRow> RecentRows<K, R> {
    /// Creates a cache of at most `most` rows. The least recently used row is removed first.
    pub(super) fn new(changes: &AccessChanges, most: NonZeroUsize) -> RecentRows<K, R> {
        let remembered = Remembered { rows: LruCache::new(most), ask_again_at: None };
        RecentRows { remembered: Arc::new(Mutex::new(remembered)), changes: changes.clone() }
    }

    /// Returns a row from the cache, or else from `look_up`. Returns `None` if there is no such row; this is
    /// not cached.
    ///
    /// # Errors
    /// The look-up fails and the row was not confirmed within the last 30 s.
    pub(super) async fn get<E: Send + 'static>(
        &self,
        clock: &dyn Clock,
        key: K,
        look_up: impl Future<Output = Result<Option<R>, E>> + Send + 'static,
    ) -> Result<Option<R>, E> {
        let at = clock.monotonic_micros();
        let Some(known) = self.known(&key, clock.now()) else { return self.remember(key, at, look_up).await };
        self.changes.record_use(known.row.entry(), at);
        let age = at.saturating_sub(known.confirmed);
        if age < FRESH && at.saturating_sub(known.at) < LONGEST {
            return Ok(Some(known.row));
        }
        if age >= FRESH_IN_OUTAGE {
            return self.remember(key, at, look_up).await;
        }
        if self.is_paused(at) {
            return Ok(Some(known.row));
        }
        // The look-up continues even if the request stops waiting: its result serves the next request.
        let rows = self.clone();
        let looking_up = async move { rows.remember(key, at, look_up).await }.in_current_span();
        match tokio::time::timeout(LOOK_UP_TIMEOUT, tokio::spawn(looking_up)).await {
            Ok(Ok(Ok(found))) => return Ok(found),
            Ok(_) => {}
            Err(_) => self.pause(at),
        }
        Ok(Some(known.row))
    }

    /// Returns the cached row, with the latest time at which it is known to be unchanged.
    fn known(&self, key: &K, now: OffsetDateTime) -> Option<Known<R>> {
        let mut remembered = self.remembered.lock();
        let known = remembered.rows.get_mut(key)?;
        known.confirmed = known.confirmed.max(self.changes.confirmed_until(&known.row.entry(), known.at)?);
        Some(known.clone()).filter(|known| !known.row.is_over(now))
    }

    /// Looks a row up and caches it. Does not cache it if something changed during the look-up, because the
    /// row may be outdated.
    async fn remember<E>(
        &self,
        key: K,
        at: i64,
        look_up: impl Future<Output = Result<Option<R>, E>>,
    ) -> Result<Option<R>, E> {
        let changes = self.changes.own_changes();
        let found = look_up.await.inspect_err(|_| self.pause(at))?;
        let mut remembered = self.remembered.lock();
        remembered.ask_again_at = None;
        match &found {
            Some(row) if self.changes.own_changes() == changes => {
                self.changes.record_use(row.entry(), at);
                let known = Known { row: row.clone(), at, confirmed: at };
                remembered.rows.put(key, known);
            }
            _ => drop(remembered.rows.pop(&key)),
        }
        Ok(found)
    }

    /// Records that a look-up which began at time `at` failed or takes long.
    fn pause(&self, at: i64) {
        let mut remembered = self.remembered.lock();
        remembered.ask_again_at = remembered.ask_again_at.max(Some(at + LOOK_UP_INTERVAL_IN_OUTAGE));
    }

    /// Returns true during an outage of the database. One request in each interval gets false and asks the
    /// database again.
    fn is_paused(&self, now: i64) -> bool {
        let mut remembered = self.remembered.lock();
        match remembered.ask_again_at {
            None => false,
            Some(at) if now < at => true,
            Some(_) => {
                remembered.ask_again_at = Some(now + LOOK_UP_INTERVAL_IN_OUTAGE);
                false
            }
        }
    }

    /// Forgets the rows of a tenant.
    pub(super) fn forget(&self, tenant: &TenantId) {
        let rows = &mut self.remembered.lock().rows;
        let of = rows.iter().filter(|(_, known)| known.row.tenant() == tenant);
        for key in of.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            rows.pop(&key);
        }
    }

    /// Forgets all rows.
    pub(super) fn clear(&self) {
        self.remembered.lock().rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{Ready, pending, ready};
    use tokio::time::Instant;
    use unslide_model::FixedClock;

    const SECOND: i64 = 1_000_000;

    #[derive(Clone)]
    struct Row(TenantId);

    impl RecentRow for Row {
        fn entry(&self) -> AccessEntry {
            AccessEntry::Tenant(self.0.clone())
        }

        fn tenant(&self) -> &TenantId {
            &self.0
        }
    }

    type Found = Result<Option<Row>, &'static str>;

    fn acme() -> TenantId {
        TenantId::new("acme").unwrap()
    }

    fn found() -> Ready<Found> {
        ready(Ok(Some(Row(acme()))))
    }

    fn gone() -> Ready<Found> {
        ready(Ok(None))
    }

    fn fails() -> Ready<Found> {
        ready(Err("the database is down"))
    }

    fn unasked() -> impl Future<Output = Found> + Send + 'static {
        std::future::poll_fn(|_| panic!("the database is asked"))
    }

    /// A process that looked a row up when its clock began.
    struct Process {
        rows: RecentRows<&'static str, Row>,
        changes: AccessChanges,
        clock: FixedClock,
    }

    impl Process {
        fn new() -> Process {
            let changes = AccessChanges::default();
            let rows = RecentRows::new(&changes, NonZeroUsize::MIN);
            Process { rows, changes, clock: FixedClock::at_micros(0) }
        }

        /// One that reads no stamps.
        async fn that_knew_a_row(seconds: i64) -> Process {
            let process = Process::new();
            assert!(process.has(found()).await.unwrap());
            process.wait(seconds * SECOND);
            process
        }

        /// One that has read a stamp before it looked the row up.
        async fn that_reads_stamps() -> Process {
            let process = Process::new();
            process.changes.record_use(Row(acme()).entry(), 0);
            process.read_stamp(1);
            process.wait(1);
            assert!(process.has(found()).await.unwrap());
            process
        }

        fn wait(&self, micros: i64) {
            self.clock.advance_micros(micros);
        }

        fn read_stamp(&self, stamp: i64) {
            let now = self.clock.monotonic_micros();
            let entries = self.changes.entries_in_use(now);
            let stamps = entries.iter().map(|entry| (entry.clone(), stamp)).collect();
            self.changes.apply(&entries, &stamps, now);
        }

        async fn has(
            &self,
            look_up: impl Future<Output = Found> + Send + 'static,
        ) -> Result<bool, &'static str> {
            Ok(self.rows.get(&self.clock, "row", look_up).await?.is_some())
        }
    }

    /// Proves: keys
    #[tokio::test]
    async fn while_its_stamp_stays_the_same_a_row_is_looked_up_every_five_minutes() {
        let process = Process::that_reads_stamps().await;
        for _ in 0..999 {
            process.wait(300_000);
            process.read_stamp(1);
            assert!(process.has(unasked()).await.unwrap());
        }
        process.wait(300_000);
        process.read_stamp(1);
        assert!(!process.has(gone()).await.unwrap());
    }

    /// Proves: keys
    #[tokio::test]
    async fn without_a_stamp_for_a_second_the_database_is_asked() {
        let process = Process::that_reads_stamps().await;
        process.wait(5 * SECOND);
        process.read_stamp(1);
        process.wait(SECOND - 1);
        assert!(process.has(unasked()).await.unwrap());
        process.wait(1);
        assert!(!process.has(gone()).await.unwrap());
    }

    /// Proves: keys
    #[tokio::test]
    async fn a_change_that_is_known_counts_for_the_next_request() {
        let process = Process::that_reads_stamps().await;
        process.wait(1);
        process.read_stamp(2);
        assert!(process.has(found()).await.unwrap());
        process.wait(1);
        process.read_stamp(2);
        process.rows.forget(&TenantId::new("umbrella").unwrap());
        assert!(process.has(unasked()).await.unwrap());
        process.rows.forget(&acme());
        assert!(!process.has(gone()).await.unwrap());
    }

    /// Proves: keys
    #[tokio::test]
    async fn a_row_that_was_read_before_a_change_is_not_remembered_after_it() {
        let process = Process::new();
        let (changes, rows) = (process.changes.clone(), process.rows.clone());
        let overtaken = async move {
            changes.count_own();
            rows.forget(&acme());
            found().await
        };
        assert!(process.has(overtaken).await.unwrap());
        assert!(!process.has(gone()).await.unwrap());
    }

    /// Proves: keys
    #[tokio::test]
    async fn a_stamp_says_nothing_of_rows_that_were_read_before_the_first_one() {
        let process = Process::new();
        assert!(process.has(found()).await.unwrap());
        process.wait(SECOND / 2);
        // The row may have changed between its look-up and this stamp.
        process.read_stamp(1);
        process.wait(SECOND / 2);
        process.read_stamp(1);
        assert!(!process.has(gone()).await.unwrap());
    }

    /// Proves: keys
    #[tokio::test]
    async fn without_the_database_a_row_counts_for_half_a_minute_after_it_was_confirmed() {
        for (seconds, is_let_in) in [(29, true), (30, false)] {
            let process = Process::that_reads_stamps().await;
            process.wait(5 * SECOND);
            process.read_stamp(1);
            assert!(process.has(unasked()).await.unwrap());
            process.wait(seconds * SECOND);
            assert_eq!(process.has(fails()).await.is_ok(), is_let_in, "{seconds}");
        }
        assert!(Process::that_knew_a_row(29).await.has(fails()).await.unwrap());
        let process = Process::that_knew_a_row(30).await;
        assert!(process.has(fails()).await.is_err());
    }

    #[tokio::test]
    async fn where_too_many_are_remembered_the_one_that_was_asked_for_longest_ago_goes() {
        let process = Process::that_reads_stamps().await;
        assert!(process.rows.get(&process.clock, "other", found()).await.unwrap().is_some());
        assert!(!process.has(gone()).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_that_is_not_known_any_more_waits_for_the_database() {
        let process = Process::that_knew_a_row(30).await;
        let waits = tokio::time::timeout(Duration::from_secs(9), process.has(pending()));
        assert!(waits.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_row_waits_a_moment_for_a_database_that_does_not_answer_and_the_next_not_at_all() {
        let process = Process::that_knew_a_row(2).await;
        let start = Instant::now();
        assert!(process.has(pending()).await.unwrap());
        assert!(start.elapsed() < 2 * LOOK_UP_TIMEOUT);
        for _ in 0..100 {
            assert!(process.has(unasked()).await.unwrap());
        }
        assert!(start.elapsed() < 2 * LOOK_UP_TIMEOUT);
        // After a second one request asks, and the others do not wait for its answer.
        process.wait(LOOK_UP_INTERVAL_IN_OUTAGE);
        let (first, second) = tokio::join!(process.has(pending()), process.has(pending()));
        assert!(first.unwrap() && second.unwrap());
        assert!(start.elapsed() < 3 * LOOK_UP_TIMEOUT);
        process.wait(LOOK_UP_INTERVAL_IN_OUTAGE);
        assert!(!process.has(gone()).await.unwrap());
        assert!(!process.has(gone()).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_late_look_up_finds_counts_for_the_next_request() {
        let process = Process::that_knew_a_row(2).await;
        let late = async {
            tokio::time::sleep(2 * LOOK_UP_TIMEOUT).await;
            gone().await
        };
        assert!(process.has(late).await.unwrap());
        tokio::time::sleep(2 * LOOK_UP_TIMEOUT).await;
        assert!(!process.has(gone()).await.unwrap());
    }
}
