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
/// How long a look-up may take: apps give up after 15 seconds, and the broker needs its part of them.
pub const KEY_LOOKUP_TIMEOUT: Duration = Duration::from_secs(4);
/// Seconds after which a request may be sent again that the database did not answer.
const LOOKUP_RETRY_SECONDS: u32 = 30;

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
    /// The look-up fails or takes more than [`KEY_LOOKUP_TIMEOUT`], and the key was not known before.
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
        let looked_up = tokio::time::timeout(KEY_LOOKUP_TIMEOUT, look_up).await.unwrap_or_else(|_| {
            let why = format!("PostgreSQL did not answer within {} s", KEY_LOOKUP_TIMEOUT.as_secs());
            Err(Problem::unavailable(why, LOOKUP_RETRY_SECONDS))
        });
        let caller = match (looked_up, old) {
            (Ok(caller), _) => caller.map(Arc::new),
            // It counts as looked up, so that an outage costs one request in ten seconds this time and not each.
            (Err(_), Some(old)) => Some(old),
            (Err(problem), None) => return Err(problem),
        };
        self.0.lock().put(key, Entry { caller: caller.clone(), read_at: now });
        Ok(caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct TestKind;

    impl PathKeyKind for TestKind {
        const KEY_PREFIX: &'static str = "ust_";
    }

    /// A look-up that a silent database never answers.
    async fn find_silently(
        keys: &KnownKeys<TestKind, u8>,
        now: i64,
        key: &PathKey<TestKind>,
    ) -> Result<Option<Arc<u8>>, Problem> {
        keys.find_caller(now, key.clone(), std::future::pending()).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_database_costs_a_known_key_four_seconds_in_ten_and_an_unknown_one_is_unavailable() {
        let keys = KnownKeys::<TestKind, u8>::default();
        let [known, unknown] =
            [1, 2].map(|byte| PathKey::<TestKind>::from_random(&[byte; super::super::RANDOM_BYTES]));
        let found = keys.find_caller(0, known.clone(), async { Ok(Some(7)) }).await.unwrap();
        assert_eq!(found.as_deref(), Some(&7));
        let begin = tokio::time::Instant::now();
        let later = 11_000_000;
        assert_eq!(find_silently(&keys, later, &known).await.unwrap().as_deref(), Some(&7));
        assert_eq!(begin.elapsed(), KEY_LOOKUP_TIMEOUT);
        assert_eq!(find_silently(&keys, later + 9_000_000, &known).await.unwrap().as_deref(), Some(&7));
        assert_eq!(begin.elapsed(), KEY_LOOKUP_TIMEOUT);
        let problem = find_silently(&keys, later, &unknown).await.unwrap_err();
        assert_eq!(problem.kind(), crate::problem::Kind::Unavailable);
    }
}
