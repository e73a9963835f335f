//! Cache of the keys in use, so that a request with a known key costs no statement.
//!
//! A task reads the keys in use again several times a second, in one statement. A key that was not confirmed
//! for a second is looked up by its next request. A change by this process counts for the next request. While
//! the database does not answer, a key that was confirmed within `api.key_outage` still counts.

use lru::LruCache;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use unslide_model::{Clock, TenantId};
use unslide_store::keys::{self, KeyProof, Principal};
use unslide_store::{Result, Store};

/// Maximum number of cached keys.
const KEY_LIMIT: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Microseconds for which a key counts after the database confirmed it.
const FRESH_MICROS: i64 = 1_000_000;
/// Microseconds for which a key is in use after a request.
const IN_USE_MICROS: i64 = 10_000_000;
/// Time between two refreshes. Two of them fit into the second for which a key counts.
const REFRESH_INTERVAL: Duration = Duration::from_millis(400);
/// Timeout of the statement of a refresh.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a request waits for the database if its key is cached.
const LOOK_UP_TIMEOUT: Duration = Duration::from_millis(300);

/// The principals of keys. Times are microseconds of the monotonic clock. Cheap to clone.
#[derive(Clone)]
pub struct KeyCache(Arc<Mutex<State>>);

struct State {
    keys: LruCache<KeyProof, CachedKey>,
    /// Number of changes that this process made itself. What was read before a change may be outdated.
    changes: u64,
    /// True while the database does not answer.
    is_outage: bool,
    /// Microseconds for which a key counts after the database confirmed it, while the database does not answer.
    outage_micros: i64,
}

struct CachedKey {
    principal: Principal,
    confirmed_at: i64,
    used_at: i64,
}

/// Result of asking the cache for a key.
enum Cached {
    Fresh(Principal),
    /// The key has to be looked up; it counts if the database does not answer.
    Stale(Principal),
    Missing,
}

/// When a read of keys began, and the number of changes before it.
#[derive(Clone, Copy)]
struct ReadStart {
    at: i64,
    changes: u64,
}

impl KeyCache {
    /// Creates a cache whose keys count for `outage` while the database does not answer.
    #[must_use]
    pub fn new(outage: Duration) -> KeyCache {
        let outage_micros = i64::try_from(outage.as_micros()).unwrap_or(i64::MAX);
        let keys = LruCache::new(KEY_LIMIT);
        KeyCache(Arc::new(Mutex::new(State { keys, changes: 0, is_outage: false, outage_micros })))
    }

    /// Starts to refresh the keys in use, until `stop`.
    #[must_use]
    pub fn start_refresh(&self, store: Store, stop: CancellationToken) -> JoinHandle<()> {
        let cache = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = cache.refresh(&store) => {}
            }
        })
    }

    /// Returns the principal of a key, or `None` if the text is no valid key.
    ///
    /// # Errors
    /// The database fails and the key was not confirmed within `api.key_outage`.
    pub async fn authenticate(
        &self,
        store: &Store,
        clock: &dyn Clock,
        text: &str,
    ) -> Result<Option<Principal>> {
        let Some(proof) = KeyProof::parse(text) else { return Ok(None) };
        let wanted = [proof.clone()];
        let look_up = async { Ok(keys::authenticate_all(store, &wanted).await?.remove(&wanted[0])) };
        self.get(clock, proof, look_up).await
    }

    /// Forgets the keys of a tenant after one of them or the tenant has changed.
    pub fn forget(&self, tenant: &TenantId) {
        let mut state = self.0.lock();
        state.changes += 1;
        let own = state.keys.iter().filter(|(_, cached)| cached.principal.tenant == *tenant);
        for proof in own.map(|(proof, _)| proof.clone()).collect::<Vec<_>>() {
            state.keys.pop(&proof);
        }
    }

    /// Forgets all keys after keys or tenants have changed.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        state.changes += 1;
        state.keys.clear();
    }

    async fn get<E>(
        &self,
        clock: &dyn Clock,
        proof: KeyProof,
        look_up: impl Future<Output = Result<Option<Principal>, E>>,
    ) -> Result<Option<Principal>, E> {
        let (start, cached) = self.0.lock().use_key(&proof, clock);
        let found = match cached {
            Cached::Fresh(principal) => return Ok(Some(principal)),
            Cached::Missing => look_up.await?,
            Cached::Stale(principal) => match timeout(LOOK_UP_TIMEOUT, look_up).await {
                Ok(Ok(found)) => found,
                // The refresh asks the database from now on.
                Ok(Err(_)) | Err(_) => {
                    self.0.lock().is_outage = true;
                    return Ok(Some(principal));
                }
            },
        };
        self.0.lock().put(proof, found.clone(), start, start.at);
        Ok(found)
    }

    async fn refresh(&self, store: &Store) {
        let mut is_failing = false;
        loop {
            sleep(REFRESH_INTERVAL).await;
            let (start, proofs) = self.0.lock().keys_in_use(&**store.clock());
            if proofs.is_empty() {
                continue;
            }
            let error = match timeout(REFRESH_TIMEOUT, keys::refresh_all(store, &proofs)).await {
                Ok(Ok(found)) => {
                    self.0.lock().confirm(&proofs, found, start);
                    None
                }
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("PostgreSQL did not answer within {} s", REFRESH_TIMEOUT.as_secs())),
            };
            if let Some(error) = &error {
                self.0.lock().is_outage = true;
                if !is_failing {
                    tracing::warn!(
                        error,
                        "changes of keys are not read; each key counts for `api.key_outage`"
                    );
                }
            }
            is_failing = error.is_some();
        }
    }
}

impl State {
    /// Returns a key and records that a request uses it.
    fn use_key(&mut self, proof: &KeyProof, clock: &dyn Clock) -> (ReadStart, Cached) {
        let at = clock.monotonic_micros();
        let (is_outage, now) = (self.is_outage, clock.now());
        let start = ReadStart { at, changes: self.changes };
        let Some(known) = self.keys.get_mut(proof) else { return (start, Cached::Missing) };
        known.used_at = at;
        let age = at.saturating_sub(known.confirmed_at);
        let cached = if known.principal.expires_at.is_some_and(|end| end <= now) {
            Cached::Missing
        } else if age < FRESH_MICROS || is_outage && age < self.outage_micros {
            Cached::Fresh(known.principal.clone())
        } else if age < self.outage_micros {
            Cached::Stale(known.principal.clone())
        } else {
            Cached::Missing
        };
        (start, cached)
    }

    /// Returns the keys in use. Without any the database is not asked, so nothing is known of an outage.
    fn keys_in_use(&mut self, clock: &dyn Clock) -> (ReadStart, Vec<KeyProof>) {
        let at = clock.monotonic_micros();
        let is_used = |cached: &CachedKey| at.saturating_sub(cached.used_at) < IN_USE_MICROS;
        let used = self.keys.iter().take_while(|(_, cached)| is_used(cached));
        let used: Vec<KeyProof> = used.map(|(proof, _)| proof.clone()).collect();
        self.is_outage &= !used.is_empty();
        (ReadStart { at, changes: self.changes }, used)
    }

    /// Stores what the database says of the keys that were asked for.
    fn confirm(&mut self, asked: &[KeyProof], mut found: HashMap<KeyProof, Principal>, start: ReadStart) {
        for proof in asked {
            // A key that was evicted or forgotten since is not in use.
            if let Some(used_at) = self.keys.peek(proof).map(|cached| cached.used_at) {
                self.put(proof.clone(), found.remove(proof), start, used_at);
            }
        }
        self.is_outage = false;
    }

    /// Stores what the database says of a key. If something changed since the read began, the key is
    /// forgotten: what was read may be outdated.
    fn put(&mut self, proof: KeyProof, found: Option<Principal>, start: ReadStart, used_at: i64) {
        self.is_outage = false;
        match found {
            Some(principal) if self.changes == start.changes => {
                // A refresh does not change which key was used last.
                let cached = CachedKey { principal, confirmed_at: start.at, used_at };
                match self.keys.peek_mut(&proof) {
                    Some(known) => *known = cached,
                    None => drop(self.keys.put(proof, cached)),
                }
            }
            _ => drop(self.keys.pop(&proof)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::{pending, ready};
    use std::convert::Infallible;
    use time::OffsetDateTime;
    use tokio::time::Instant;
    use unslide_model::FixedClock;
    use unslide_store::Uuid;
    use unslide_store::tenants::QuotaLimits;

    const SECOND: i64 = 1_000_000;
    const OUTAGE: Duration = Duration::from_secs(90);

    fn tenant(slug: &str) -> TenantId {
        TenantId::new(slug).unwrap()
    }

    fn principal() -> Principal {
        Principal {
            tenant: tenant("acme"),
            tenant_version: 1,
            active: true,
            key_id: Uuid::nil(),
            scopes: Vec::new(),
            app: None,
            expires_at: None,
            limits: QuotaLimits::default(),
            last_used_at: None,
        }
    }

    /// A process that has looked a key up at the start of its clock.
    struct Process {
        cache: KeyCache,
        clock: FixedClock,
    }

    type Found = Result<Option<Principal>, &'static str>;

    impl Process {
        async fn start() -> Process {
            let process = Process { cache: KeyCache::new(OUTAGE), clock: FixedClock::at_micros(0) };
            assert!(process.has(Ok(Some(principal()))).await.unwrap());
            process
        }

        fn proof() -> KeyProof {
            KeyProof::parse(&format!("unslide_{}_{}", "a".repeat(8), "b".repeat(40))).unwrap()
        }

        async fn has(&self, found: Found) -> Result<bool, &'static str> {
            Ok(self.cache.get(&self.clock, Process::proof(), ready(found)).await?.is_some())
        }

        /// Returns true if the key is cached. The database must not be asked.
        async fn is_cached(&self) -> bool {
            let unasked = std::future::poll_fn(|_| panic!("the database is asked"));
            let found: Result<_, Infallible> = self.cache.get(&self.clock, Process::proof(), unasked).await;
            found.is_ok_and(|found| found.is_some())
        }

        fn wait(&self, micros: i64) {
            self.clock.advance_micros(micros);
        }

        /// One refresh, of which the database says `found`.
        fn refresh(&self, found: Option<Principal>) {
            let mut state = self.cache.0.lock();
            let (start, asked) = state.keys_in_use(&self.clock);
            let found = asked.iter().cloned().zip(found).collect();
            state.confirm(&asked, found, start);
        }
    }

    /// Proves: keys
    #[tokio::test]
    async fn a_key_in_use_is_confirmed_by_refreshes_and_forgotten_with_the_first_that_lacks_it() {
        let process = Process::start().await;
        for _ in 0..100 {
            process.wait(SECOND / 2);
            process.refresh(Some(principal()));
            process.wait(SECOND / 2 - 1);
            assert!(process.is_cached().await);
        }
        process.refresh(None);
        assert!(!process.has(Ok(None)).await.unwrap());
    }

    /// Proves: keys
    #[tokio::test]
    async fn a_key_that_was_not_confirmed_for_a_second_is_looked_up() {
        let process = Process::start().await;
        process.wait(SECOND - 1);
        assert!(process.is_cached().await);
        process.wait(1);
        assert!(!process.has(Ok(None)).await.unwrap());
        assert!(process.has(Err("it is not cached")).await.is_err());
    }

    /// Proves: keys
    #[tokio::test]
    async fn a_key_counts_with_what_the_last_refresh_says_of_it() {
        let process = Process::start().await;
        process.refresh(Some(Principal { active: false, tenant_version: 2, ..principal() }));
        let found: Found = process.cache.get(&process.clock, Process::proof(), pending()).await;
        assert_eq!(found.unwrap().map(|found| (found.active, found.tenant_version)), Some((false, 2)));
        process.refresh(Some(Principal { expires_at: Some(OffsetDateTime::UNIX_EPOCH), ..principal() }));
        assert!(!process.has(Ok(None)).await.unwrap(), "it has expired");
    }

    /// Proves: keys
    #[tokio::test]
    async fn a_change_by_this_process_counts_for_the_next_request() {
        let process = Process::start().await;
        process.cache.forget(&tenant("umbrella"));
        assert!(process.is_cached().await);
        process.cache.forget(&tenant("acme"));
        // The change comes while the key is looked up: the answer is used and not cached.
        let cache = process.cache.clone();
        let overtaken = async move {
            cache.clear();
            Found::Ok(Some(principal()))
        };
        let found = process.cache.get(&process.clock, Process::proof(), overtaken).await;
        assert!(found.unwrap().is_some());
        assert!(!process.has(Ok(None)).await.unwrap());
    }

    /// Proves: keys
    #[tokio::test]
    async fn in_an_outage_a_key_counts_for_the_set_time_after_it_was_confirmed() {
        let process = Process::start().await;
        process.wait(89 * SECOND);
        assert!(process.has(Err("down")).await.unwrap());
        // The next requests do not ask.
        process.wait(SECOND - 1);
        assert!(process.is_cached().await);
        process.wait(1);
        assert!(process.has(Err("down")).await.is_err());
        assert!(process.has(Ok(Some(principal()))).await.unwrap());
        process.wait(SECOND);
        assert!(!process.has(Ok(None)).await.unwrap(), "the outage is over");
    }

    #[tokio::test]
    async fn without_requests_nothing_is_known_of_an_outage() {
        let process = Process::start().await;
        process.wait(2 * SECOND);
        assert!(process.has(Err("down")).await.unwrap());
        process.wait(IN_USE_MICROS);
        process.refresh(None);
        assert!(!process.has(Ok(None)).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_with_a_cached_key_waits_a_moment_for_the_database() {
        let process = Process::start().await;
        process.wait(2 * SECOND);
        let start = Instant::now();
        let found: Found = process.cache.get(&process.clock, Process::proof(), pending()).await;
        assert!(found.unwrap().is_some());
        assert!(start.elapsed() < 2 * LOOK_UP_TIMEOUT);
        process.wait(i64::try_from(OUTAGE.as_micros()).unwrap());
        let waits = process.cache.get(&process.clock, Process::proof(), pending::<Found>());
        assert!(timeout(Duration::from_secs(9), waits).await.is_err());
    }
}
