//! Keys that this process looked up a short time ago, unknown ones too. While the database does not answer, keys that
//! were known stay known.

use super::text::{PathKey, PathKeyKind};
use crate::problem::Problem;
use lru::LruCache;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// The most keys that are kept.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// How long a key that exists is not looked up again: another process may have closed it.
const KNOWN_KEY_LIFETIME: Duration = Duration::from_secs(10);
/// How long a text that is no key is not looked up again.
const UNKNOWN_KEY_LIFETIME: Duration = Duration::from_secs(60);

struct Entry<C> {
    caller: Option<Arc<C>>,
    /// Microseconds of the monotonic clock.
    read_at: i64,
}

impl<C> Entry<C> {
    fn is_fresh(&self, now: i64) -> bool {
        let lifetime = if self.caller.is_some() { KNOWN_KEY_LIFETIME } else { UNKNOWN_KEY_LIFETIME };
        now.saturating_sub(self.read_at) < i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX)
    }
}

/// Cache of look-ups, shared by all requests. `C` is the caller of a key.
pub struct KnownKeys<K: PathKeyKind, C>(Mutex<LruCache<PathKey<K>, Entry<C>>>);

impl<K: PathKeyKind, C> Default for KnownKeys<K, C> {
    fn default() -> KnownKeys<K, C> {
        KnownKeys(Mutex::new(LruCache::new(CAPACITY)))
    }
}

impl<K: PathKeyKind, C> KnownKeys<K, C> {
    /// Forgets all keys, because one has changed.
    pub fn forget_all(&self) {
        self.0.lock().clear();
    }

    /// Returns the caller of a key that was looked up a short time before `now`, without a look-up.
    #[must_use]
    pub fn find_known(&self, now: i64, key: &PathKey<K>) -> Option<Arc<C>> {
        let mut known = self.0.lock();
        known.get(key).filter(|entry| entry.is_fresh(now)).and_then(|entry| entry.caller.clone())
    }

    /// Finds the caller of a key at `now`, in microseconds of the monotonic clock. `look_up` is polled only if the key was
    /// not looked up a short time ago.
    ///
    /// # Errors
    /// The look-up fails, and the key was not known before.
    pub async fn find_caller(
        &self,
        now: i64,
        key: PathKey<K>,
        look_up: impl Future<Output = Result<Option<C>, Problem>>,
    ) -> Result<Option<Arc<C>>, Problem> {
        let (old, is_fresh) = match self.0.lock().get(&key) {
            Some(entry) => (entry.caller.clone(), entry.is_fresh(now)),
            None => (None, false),
        };
        if is_fresh {
            return Ok(old);
        }
        let caller = match look_up.await {
            Ok(caller) => caller.map(Arc::new),
            Err(problem) => return old.map(Some).ok_or(problem),
        };
        self.0.lock().put(key, Entry { caller: caller.clone(), read_at: now });
        Ok(caller)
    }
}
