//! Keys that were looked up a moment ago: one that sends request after request is looked up once a second, and goes on
//! for a while without the database.
//!
//! What another process changes of a key or its tenant is seen after [`FRESH`] at the latest. What this process changes
//! is seen by its next request.

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::num::NonZeroUsize;
use time::OffsetDateTime;
use unslide_model::{Clock, ContentHash};
use unslide_store::keys::{self, Principal};
use unslide_store::{Result, Store};

/// Microseconds for which a key is what it was when it was looked up.
const FRESH: i64 = 1_000_000;
/// The same while the database cannot say.
const FRESH_IN_OUTAGE: i64 = 30_000_000;
/// Keys that are remembered.
const MOST: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// The principals of keys, by a hash of the key.
pub struct RecentKeys(Mutex<LruCache<ContentHash, Known>>);

#[derive(Clone)]
struct Known {
    principal: Principal,
    /// Microseconds of the monotonic clock when its look-up began.
    at: i64,
}

impl Default for RecentKeys {
    fn default() -> RecentKeys {
        RecentKeys(Mutex::new(LruCache::new(MOST)))
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
        let hash = ContentHash(Sha256::digest(key).into());
        let at = clock.monotonic_micros();
        let known = self.0.lock().get(&hash).cloned();
        let within = |most: i64| known.as_ref().and_then(|known| known.within(most, at, clock.now()));
        if let Some(principal) = within(FRESH) {
            return Ok(Some(principal));
        }
        let found = match keys::authenticate(store, key).await {
            Err(error) => return within(FRESH_IN_OUTAGE).map(Some).ok_or(error),
            Ok(found) => found,
        };
        match &found {
            Some(principal) => drop(self.0.lock().put(hash, Known { principal: principal.clone(), at })),
            None => drop(self.0.lock().pop(&hash)),
        }
        Ok(found)
    }

    /// Forgets all keys, after something of keys or of tenants has changed.
    pub fn clear(&self) {
        self.0.lock().clear();
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
