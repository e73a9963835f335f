//! Keys that this process looked up a short time ago, unknown ones too. While the database does not answer, keys that
//! were known stay known.

use crate::key::KeyText;
use crate::store::{self, CallerKey};
use lru::LruCache;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Api;
use unslide_api::problem::Problem;

/// The most keys that are kept.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// How long a key that exists is not looked up again: another process may have closed it.
const KNOWN_KEY_LIFETIME: Duration = Duration::from_secs(10);
/// How long a text that is no key is not looked up again.
const UNKNOWN_KEY_LIFETIME: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Entry {
    key: Option<Arc<CallerKey>>,
    /// Microseconds of the monotonic clock.
    read_at: i64,
}

impl Entry {
    fn is_fresh(&self, now: i64) -> bool {
        let lifetime = if self.key.is_some() { KNOWN_KEY_LIFETIME } else { UNKNOWN_KEY_LIFETIME };
        now.saturating_sub(self.read_at) < i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX)
    }
}

/// Cache of look-ups, shared by all requests.
pub struct KnownKeys(Mutex<LruCache<KeyText, Entry>>);

impl Default for KnownKeys {
    fn default() -> KnownKeys {
        KnownKeys(Mutex::new(LruCache::new(CAPACITY)))
    }
}

impl KnownKeys {
    /// Forgets all keys, because one has changed.
    pub fn forget_all(&self) {
        self.0.lock().clear();
    }

    /// Finds the key of a request. A text without a correct checksum costs no look-up.
    ///
    /// # Errors
    /// The database fails, and the key was not known before.
    pub async fn find_key(&self, api: &Api, text: &str) -> Result<Option<Arc<CallerKey>>, Problem> {
        let Some(text) = KeyText::parse(text) else { return Ok(None) };
        let now = api.clock.monotonic_micros();
        let known = self.0.lock().get(&text).cloned();
        if let Some(entry) = known.as_ref().filter(|entry| entry.is_fresh(now)) {
            return Ok(entry.key.clone());
        }
        let key = match store::find_caller(&api.store, &text).await {
            Ok(key) => key.map(Arc::new),
            Err(error) => {
                let old = known.and_then(|entry| entry.key);
                return old.map(Some).ok_or_else(|| error.into());
            }
        };
        self.0.lock().put(text, Entry { key: key.clone(), read_at: now });
        if let Some(key) = &key {
            record_use(api, key.clone());
        }
        Ok(key)
    }
}

/// Records the use of a key without keeping its request waiting.
fn record_use(api: &Api, key: Arc<CallerKey>) {
    let store = api.store.clone();
    tokio::spawn(async move {
        if let Err(error) = store::record_use(&store, &key).await {
            tracing::debug!(%error, public_key.id = key.id, "the use of a public key was not recorded");
        }
    });
}
