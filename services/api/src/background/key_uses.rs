//! Records when keys were used. The uses are collected in memory and written outside the path of requests.

use lru::LruCache;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use unslide_model::TenantId;
use unslide_store::keys;
use unslide_store::{Store, Uuid};

const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of keys that wait to be written. Further keys are recorded at their next use.
const PENDING_KEYS_CAPACITY: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

type Pending = BTreeMap<(TenantId, Uuid), OffsetDateTime>;

/// The uses that are not written yet. Cheap to clone.
#[derive(Clone, Debug)]
pub struct KeyUses(Arc<Mutex<Uses>>);

#[derive(Debug)]
struct Uses {
    pending: Pending,
    /// The last written use of each key. A principal may be cached for longer than a use is recent.
    written: LruCache<Uuid, OffsetDateTime>,
}

impl Default for KeyUses {
    fn default() -> KeyUses {
        KeyUses(Arc::new(Mutex::new(Uses {
            pending: Pending::new(),
            written: LruCache::new(PENDING_KEYS_CAPACITY),
        })))
    }
}

impl KeyUses {
    /// Starts to write, until `stop`; the task ends after the last uses are written.
    #[must_use]
    pub fn start(store: Store, stop: CancellationToken) -> (KeyUses, tokio::task::JoinHandle<()>) {
        let uses = KeyUses::default();
        let writer = uses.clone();
        let task = tokio::spawn(async move {
            loop {
                let over = tokio::select! {
                    () = stop.cancelled() => true,
                    () = tokio::time::sleep(WRITE_INTERVAL) => false,
                };
                writer.write_uses(&store).await;
                if over {
                    return;
                }
            }
        });
        (uses, task)
    }

    /// Records that a key was used now, unless the database has recorded a use in the last minute. `last_used_at` is the use
    /// that the look-up of the key found.
    pub fn record_use(
        &self,
        tenant: &TenantId,
        key_id: Uuid,
        last_used_at: Option<OffsetDateTime>,
        now: OffsetDateTime,
    ) {
        let mut uses = self.0.lock();
        let written = uses.written.peek(&key_id).copied().max(last_used_at);
        if written.is_some_and(|last| now - last < keys::NOTED_EVERY) {
            return;
        }
        if uses.pending.len() < PENDING_KEYS_CAPACITY.get() {
            uses.pending.entry((tenant.clone(), key_id)).or_insert(now);
        }
    }

    async fn write_uses(&self, store: &Store) {
        let pending = std::mem::take(&mut self.0.lock().pending);
        if let Err(error) = keys::record_uses(store, &pending).await {
            // The uses only show which keys are unused, and the next use is recorded as well.
            tracing::warn!(error = %error, "when keys were used could not be noted");
            return;
        }
        let mut uses = self.0.lock();
        for ((_, key), at) in pending {
            uses.written.put(key, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::Duration;

    #[test]
    fn a_use_is_written_once_a_minute_also_of_a_principal_that_is_remembered_for_longer() {
        let uses = KeyUses::default();
        let (tenant, key) = (TenantId::new("acme").unwrap(), Uuid::nil());
        let at = OffsetDateTime::UNIX_EPOCH;
        let waits = |now| {
            uses.record_use(&tenant, key, None, now);
            uses.0.lock().pending.pop_first().map(|(_, at)| at)
        };
        assert_eq!(waits(at), Some(at));
        uses.0.lock().written.put(key, at);
        assert_eq!(waits(at + Duration::seconds(59)), None);
        let later = at + keys::NOTED_EVERY;
        assert_eq!(waits(later), Some(later));
    }
}
