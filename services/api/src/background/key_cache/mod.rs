//! Cache of the keys in use of every kind, so that a request with a known key costs no statement. A look-up names the kind.
//!
//! A task reads the keys in use again several times a second, in one statement. A key that was not confirmed
//! for a second is looked up by its next request. A change by this process counts for the next request. While
//! the database does not answer, a key that was confirmed within `api.key_outage` still counts; of some kinds every known key.
//!
//! Keys in paths ship in apps, which send on after their key was closed. So a text of such a kind that is no key is known for
//! a minute, too.

use lru::LruCache;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use unslide_model::{Clock, TenantId};
use unslide_store::keys::{self, ApiKeyType, KeyOwner, KeyPlace, KeyProof, KeyType, Principal};
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

/// Microseconds for which a text that is no key is not looked up again, if apps carry keys of its kind.
const UNKNOWN_MICROS: i64 = 60_000_000;

/// The owners of keys. Times are microseconds of the monotonic clock. Cheap to clone.
#[derive(Clone)]
pub struct KeyCache(Arc<Mutex<State>>);

struct State {
    keys: LruCache<KeyProof, CachedKey>,
    /// Texts in paths that are no keys, with the time of their look-up.
    unknown: LruCache<KeyProof, i64>,
    /// Number of changes that this process made itself. What was read before a change may be outdated.
    changes: u64,
    /// True while the database does not answer.
    is_outage: bool,
    /// Microseconds for which a key counts after the database confirmed it, while the database does not answer.
    outage_micros: i64,
}

struct CachedKey {
    owner: Arc<KeyOwner>,
    confirmed_at: i64,
    used_at: i64,
}

/// Result of asking the cache for a key.
enum Cached {
    Fresh(Arc<KeyOwner>),
    /// The key has to be looked up; it counts if the database does not answer.
    Stale(Arc<KeyOwner>),
    Missing,
    /// A short time ago the text was no key.
    Unknown,
}

/// The owner of a key that a request presented as one of this kind. Only a look-up of the kind makes it.
#[derive(Clone, Debug)]
pub struct Presented<K> {
    owner: Arc<KeyOwner>,
    kind: PhantomData<K>,
}

impl<K: KeyType> Presented<K> {
    /// Returns the owner, if the key is of the kind.
    fn from_owner(owner: Arc<KeyOwner>) -> Option<Presented<K>> {
        (owner.kind == K::DECLARATION).then_some(Presented { owner, kind: PhantomData })
    }
}

impl<K> Deref for Presented<K> {
    type Target = KeyOwner;

    fn deref(&self) -> &KeyOwner {
        &self.owner
    }
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
        let (keys, unknown) = (LruCache::new(KEY_LIMIT), LruCache::new(KEY_LIMIT));
        KeyCache(Arc::new(Mutex::new(State { keys, unknown, changes: 0, is_outage: false, outage_micros })))
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

    /// Returns the principal of an API key, or `None` if the text is no valid API key.
    ///
    /// # Errors
    /// The database fails and the key was not confirmed within `api.key_outage`.
    pub async fn authenticate(
        &self,
        store: &Store,
        clock: &dyn Clock,
        text: &str,
    ) -> Result<Option<Principal>> {
        let owner = self.find_key::<ApiKeyType>(store, clock, text).await?;
        Ok(owner.and_then(|owner| KeyOwner::clone(&owner).into_principal()))
    }

    /// Returns the owner of a key of a kind, or `None` if the text is no valid key of this kind.
    ///
    /// # Errors
    /// The database fails and the key does not count in its outage.
    pub async fn find_key<K: KeyType>(
        &self,
        store: &Store,
        clock: &dyn Clock,
        text: &str,
    ) -> Result<Option<Presented<K>>> {
        let Some(proof) = KeyProof::parse(K::DECLARATION, text) else { return Ok(None) };
        let wanted = [proof.clone()];
        let look_up = async { Ok(keys::authenticate_all(store, &wanted).await?.remove(&wanted[0])) };
        let owner: Result<Option<Arc<KeyOwner>>> = self.get(clock, proof, look_up).await;
        Ok(owner?.and_then(Presented::from_owner))
    }

    /// Returns the owner of a key that was in use a short time ago, without a look-up.
    #[must_use]
    pub fn find_known<K: KeyType>(&self, clock: &dyn Clock, text: &str) -> Option<Presented<K>> {
        let proof = KeyProof::parse(K::DECLARATION, text)?;
        let at = clock.monotonic_micros();
        let mut state = self.0.lock();
        let is_recent = state.keys.peek(&proof).is_some_and(|key| at - key.confirmed_at < IN_USE_MICROS);
        match state.use_key(&proof, clock).1 {
            Cached::Fresh(owner) => Presented::from_owner(owner),
            Cached::Stale(owner) if is_recent => Presented::from_owner(owner),
            Cached::Stale(_) | Cached::Missing | Cached::Unknown => None,
        }
    }

    /// Forgets the keys of a tenant after one of them or the tenant has changed.
    pub fn forget(&self, tenant: &TenantId) {
        let mut state = self.0.lock();
        state.changes += 1;
        let own = state.keys.iter().filter(|(_, cached)| cached.owner.tenant == *tenant);
        for proof in own.map(|(proof, _)| proof.clone()).collect::<Vec<_>>() {
            state.keys.pop(&proof);
        }
        state.unknown.clear();
    }

    /// Forgets all keys after keys or tenants have changed.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        state.changes += 1;
        state.keys.clear();
        state.unknown.clear();
    }

    async fn get<E>(
        &self,
        clock: &dyn Clock,
        proof: KeyProof,
        look_up: impl Future<Output = Result<Option<KeyOwner>, E>>,
    ) -> Result<Option<Arc<KeyOwner>>, E> {
        let (start, cached) = self.0.lock().use_key(&proof, clock);
        let found = match cached {
            Cached::Fresh(owner) => return Ok(Some(owner)),
            Cached::Unknown => return Ok(None),
            Cached::Missing => look_up.await?,
            Cached::Stale(owner) => match timeout(LOOK_UP_TIMEOUT, look_up).await {
                Ok(Ok(found)) => found,
                // The refresh asks the database from now on.
                Ok(Err(_)) | Err(_) => {
                    self.0.lock().is_outage = true;
                    return Ok(Some(owner));
                }
            },
        };
        let found = found.map(Arc::new);
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
        let Some(known) = self.keys.get_mut(proof) else {
            let looked_up = self.unknown.get(proof);
            let is_unknown =
                looked_up.is_some_and(|looked_up| at.saturating_sub(*looked_up) < UNKNOWN_MICROS);
            return (start, if is_unknown { Cached::Unknown } else { Cached::Missing });
        };
        known.used_at = at;
        let age = at.saturating_sub(known.confirmed_at);
        let outage_micros = if proof.kind().counts_in_outages { i64::MAX } else { self.outage_micros };
        let cached = if known.owner.expires_at.is_some_and(|end| end <= now) {
            Cached::Missing
        } else if age < FRESH_MICROS || is_outage && age < outage_micros {
            Cached::Fresh(known.owner.clone())
        } else if age < outage_micros {
            Cached::Stale(known.owner.clone())
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
    fn confirm(&mut self, asked: &[KeyProof], mut found: HashMap<KeyProof, KeyOwner>, start: ReadStart) {
        for proof in asked {
            // A key that was evicted or forgotten since is not in use.
            if let Some(used_at) = self.keys.peek(proof).map(|cached| cached.used_at) {
                self.put(proof.clone(), found.remove(proof).map(Arc::new), start, used_at);
            }
        }
        self.is_outage = false;
    }

    /// Stores what the database says of a key. If something changed since the read began, the key is
    /// forgotten: what was read may be outdated.
    fn put(&mut self, proof: KeyProof, found: Option<Arc<KeyOwner>>, start: ReadStart, used_at: i64) {
        self.is_outage = false;
        match found {
            Some(owner) if self.changes == start.changes => {
                // A refresh does not change which key was used last.
                let cached = CachedKey { owner, confirmed_at: start.at, used_at };
                match self.keys.peek_mut(&proof) {
                    Some(known) => *known = cached,
                    None => drop(self.keys.put(proof, cached)),
                }
            }
            found => {
                self.keys.pop(&proof);
                if found.is_none() && self.changes == start.changes && proof.kind().place != KeyPlace::Header
                {
                    self.unknown.put(proof, start.at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
