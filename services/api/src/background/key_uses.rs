//! When keys were used: collected in memory and written off the path of requests.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use unslide_model::TenantId;
use unslide_store::keys::{self, Principal};
use unslide_store::{Store, Uuid};

/// Between two writings.
const EVERY: Duration = Duration::from_secs(2);
/// Keys that wait to be written. Further ones are noted when they are used again.
const MOST: usize = 10_000;

type Pending = BTreeMap<(TenantId, Uuid), OffsetDateTime>;

/// The uses that are not written yet. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct KeyUses(Arc<Mutex<Pending>>);

impl KeyUses {
    /// Begins to write, until `stop`; the task ends when the last uses are written.
    #[must_use]
    pub fn start(store: Store, stop: CancellationToken) -> (KeyUses, tokio::task::JoinHandle<()>) {
        let uses = KeyUses::default();
        let writer = uses.clone();
        let task = tokio::spawn(async move {
            loop {
                let over = tokio::select! {
                    () = stop.cancelled() => true,
                    () = tokio::time::sleep(EVERY) => false,
                };
                writer.write(&store).await;
                if over {
                    return;
                }
            }
        });
        (uses, task)
    }

    /// Notes that a key was used now, unless the database has been told so in the last minute.
    pub fn note(&self, principal: &Principal, now: OffsetDateTime) {
        if principal.last_used_at.is_some_and(|last| now - last < keys::NOTED_EVERY) {
            return;
        }
        let mut pending = self.0.lock();
        if pending.len() < MOST {
            pending.entry((principal.tenant.clone(), principal.key_id)).or_insert(now);
        }
    }

    async fn write(&self, store: &Store) {
        let uses = std::mem::take(&mut *self.0.lock());
        if let Err(error) = keys::used(store, &uses).await {
            // It shows which keys are unused: the next use is noted as well.
            tracing::warn!(error = %error, "when keys were used could not be noted");
        }
    }
}
