//! Keys that were looked up a moment ago: one that sends request after request is looked up once a second, and goes on
//! for a while without the database.
//!
//! What another process changes of a key or its tenant is seen after [`FRESH`] and a look-up. What this process changes
//! is seen by its next request. While the database does not answer, both are seen after [`FRESH_IN_OUTAGE`] at the
//! latest.

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tracing::Instrument;
use unslide_model::{Clock, ContentHash};
use unslide_store::keys::{self, Principal};
use unslide_store::{Result, Store};

/// Microseconds for which a key is what it was when it was looked up.
const FRESH: i64 = 1_000_000;
/// The same while the database cannot say.
const FRESH_IN_OUTAGE: i64 = 30_000_000;
/// How long the request of a key that is known waits for the database.
const PATIENCE: Duration = Duration::from_millis(300);
/// Microseconds between two look-ups of known keys while the database does not answer.
const PAUSE: i64 = 1_000_000;
/// Keys that are remembered.
const MOST: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// The principals of keys, by a hash of the key. Cheap to clone.
#[derive(Clone)]
pub struct RecentKeys(Arc<Mutex<Remembered>>);

struct Remembered {
    keys: LruCache<ContentHash, Known>,
    /// When the database is asked again for a known key; `None` where it answered last.
    ask_again_at: Option<i64>,
}

#[derive(Clone)]
struct Known {
    principal: Principal,
    /// Microseconds of the monotonic clock when its look-up began.
    at: i64,
}

impl Default for RecentKeys {
    fn default() -> RecentKeys {
        RecentKeys(Arc::new(Mutex::new(Remembered { keys: LruCache::new(MOST), ask_again_at: None })))
    }
}

impl RecentKeys {
    /// Who the key belongs to; `None` for a text that is no key in force.
    ///
    /// # Errors
    /// Where the database fails and the key was not looked up within 30 s before.
    pub async fn authenticate(
        &self,
        store: &Store,
        clock: &dyn Clock,
        key: &str,
    ) -> Result<Option<Principal>> {
        let (store, text) = (store.clone(), key.to_owned());
        let look_up = async move { keys::authenticate(&store, &text).await };
        self.principal(clock, key, look_up).await
    }

    /// As [`RecentKeys::authenticate`], with `look_up` where it has to be looked up.
    async fn principal(
        &self,
        clock: &dyn Clock,
        key: &str,
        look_up: impl Future<Output = Result<Option<Principal>>> + Send + 'static,
    ) -> Result<Option<Principal>> {
        let hash = ContentHash(Sha256::digest(key).into());
        let at = clock.monotonic_micros();
        let known = self.0.lock().keys.get(&hash).cloned();
        let within = |most: i64| known.as_ref().and_then(|known| known.within(most, at, clock.now()));
        if let Some(principal) = within(FRESH) {
            return Ok(Some(principal));
        }
        let Some(principal) = within(FRESH_IN_OUTAGE) else {
            return self.remember(hash, at, look_up).await;
        };
        if self.is_paused(at) {
            return Ok(Some(principal));
        }
        // It goes on where the request does not wait for it: what it finds counts for the next one.
        let keys = self.clone();
        let looking_up = async move { keys.remember(hash, at, look_up).await }.in_current_span();
        match tokio::time::timeout(PATIENCE, tokio::spawn(looking_up)).await {
            Ok(Ok(Ok(found))) => return Ok(found),
            Ok(_) => {}
            Err(_) => self.pause(at),
        }
        Ok(Some(principal))
    }

    /// Looks a key up and remembers its principal.
    async fn remember(
        &self,
        hash: ContentHash,
        at: i64,
        look_up: impl Future<Output = Result<Option<Principal>>>,
    ) -> Result<Option<Principal>> {
        let found = look_up.await.inspect_err(|_| self.pause(at))?;
        let mut remembered = self.0.lock();
        remembered.ask_again_at = None;
        match &found {
            Some(principal) => drop(remembered.keys.put(hash, Known { principal: principal.clone(), at })),
            None => drop(remembered.keys.pop(&hash)),
        }
        Ok(found)
    }

    /// Notes that a look-up which began at a time failed or takes long.
    fn pause(&self, at: i64) {
        let mut remembered = self.0.lock();
        remembered.ask_again_at = remembered.ask_again_at.max(Some(at + PAUSE));
    }

    /// True while the database did not answer a moment ago. Then one request asks it again, and the others go on.
    fn is_paused(&self, now: i64) -> bool {
        let mut remembered = self.0.lock();
        match remembered.ask_again_at {
            None => false,
            Some(at) if now < at => true,
            Some(_) => {
                remembered.ask_again_at = Some(now + PAUSE);
                false
            }
        }
    }

    /// Forgets all keys, after something of keys or of tenants has changed.
    pub fn clear(&self) {
        self.0.lock().keys.clear();
    }
}

impl Known {
    /// The principal, where its look-up is not older than this and the key is not over.
    fn within(&self, most: i64, now: i64, time: OffsetDateTime) -> Option<Principal> {
        let fresh = now.saturating_sub(self.at) < most;
        let over = self.principal.expires_at.is_some_and(|end| end <= time);
        (fresh && !over).then(|| self.principal.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{Ready, pending, ready};
    use tokio::time::Instant;
    use unslide_model::{FixedClock, TenantId};
    use unslide_store::tenants::QuotaLimits;
    use unslide_store::{StoreError, Uuid};

    type Found = Result<Option<Principal>>;

    fn found() -> Ready<Found> {
        ready(Ok(Some(Principal {
            tenant: TenantId::new("acme").unwrap(),
            active: true,
            key_id: Uuid::nil(),
            scopes: Vec::new(),
            app: None,
            expires_at: None,
            limits: QuotaLimits::default(),
            last_used_at: None,
        })))
    }

    /// The keys of a process that has looked one up some seconds ago.
    struct Process {
        keys: RecentKeys,
        clock: FixedClock,
    }

    impl Process {
        async fn that_knew_a_key(seconds: i64) -> Process {
            let process = Process { keys: RecentKeys::default(), clock: FixedClock::at_micros(0) };
            assert!(process.lets_in(found()).await.unwrap());
            process.clock.advance_micros(seconds * 1_000_000);
            process
        }

        async fn lets_in(&self, look_up: impl Future<Output = Found> + Send + 'static) -> Result<bool> {
            Ok(self.keys.principal(&self.clock, "key", look_up).await?.is_some())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_key_waits_a_moment_for_a_database_that_does_not_answer_and_the_next_not_at_all() {
        let process = Process::that_knew_a_key(2).await;
        let start = Instant::now();
        assert!(process.lets_in(pending()).await.unwrap());
        assert!(start.elapsed() < 2 * PATIENCE);
        for _ in 0..100 {
            assert!(process.lets_in(async { panic!("the database is left alone") }).await.unwrap());
        }
        assert!(start.elapsed() < 2 * PATIENCE);
        // After a second one request asks, and the others do not wait for its answer.
        process.clock.advance_micros(PAUSE);
        let (first, second) = tokio::join!(process.lets_in(pending()), process.lets_in(pending()));
        assert!(first.unwrap() && second.unwrap());
        assert!(start.elapsed() < 3 * PATIENCE);
        process.clock.advance_micros(PAUSE);
        assert!(!process.lets_in(ready(Ok(None))).await.unwrap());
        assert!(!process.lets_in(ready(Ok(None))).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_late_look_up_finds_counts_for_the_next_request() {
        let process = Process::that_knew_a_key(2).await;
        let late = async {
            tokio::time::sleep(2 * PATIENCE).await;
            Ok(None)
        };
        assert!(process.lets_in(late).await.unwrap());
        tokio::time::sleep(2 * PATIENCE).await;
        assert!(!process.lets_in(ready(Ok(None))).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_let_in_without_the_database_for_half_a_minute() {
        let fails = || ready(Err(StoreError::InSegment));
        assert!(Process::that_knew_a_key(29).await.lets_in(fails()).await.unwrap());
        assert!(Process::that_knew_a_key(30).await.lets_in(fails()).await.is_err());
        let process = Process::that_knew_a_key(30).await;
        let waits = tokio::time::timeout(Duration::from_secs(9), process.lets_in(pending()));
        assert!(waits.await.is_err(), "a key that is not known any more waits for the database");
    }
}
