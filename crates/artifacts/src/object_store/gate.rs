//! Limit of concurrent requests: each needs a connection, and memory for its bytes.

use super::ObjectStore;
use crate::StorageError;
use crate::keys::ObjectKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use unslide_model::{PROCESS_USE, ResourceUse, Stats, TenantId};

/// Counters of an object store since it was created, and its current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Requests that were answered, including failures.
    pub requests: u64,
    /// Requests that failed temporarily.
    pub transient: u64,
    /// Requests that were refused: an operator has to act.
    pub refused: u64,
    /// Requests that run now, including downloads that still receive bytes.
    pub running: u64,
    /// Requests that wait for another to end.
    pub waiting: u64,
}

impl ObjectStore {
    /// Metrics of an object store's request limit.
    pub const OBJECT_STORE_STATS: [Stats<ObjectStore>; 2] = [
        Stats {
            name: "unslide_objects_requests",
            help: "Requests to object storage that run, or wait for their turn.",
            label: "state",
            read: |store| {
                let stats = store.stats();
                vec![("running", stats.running), ("waiting", stats.waiting)]
            },
        },
        Stats {
            name: "unslide_objects_requests_total",
            help: "Requests to object storage, by their end.",
            label: "end",
            read: |store| {
                let stats = store.stats();
                let failed = stats.transient + stats.refused;
                let answered = stats.requests.saturating_sub(failed);
                vec![("answered", answered), ("transient", stats.transient), ("refused", stats.refused)]
            },
        },
    ];
}

/// Adds bytes of an object, on their way to or from the store, to what its tenant used.
pub(super) fn charge_bytes(key: &ObjectKey, bytes: u64) {
    PROCESS_USE.add(key.tenant().as_ref(), ResourceUse { object_bytes: bytes, ..ResourceUse::default() });
}

pub(super) struct RequestGate {
    places: u64,
    free: Arc<Semaphore>,
    waiting: AtomicU64,
    requests: AtomicU64,
    transient: AtomicU64,
    refused: AtomicU64,
    outage: Outage,
}

/// Whether object storage fails, so that the log reports the start and the end of an outage once
/// each.
#[derive(Default)]
struct Outage {
    /// Answers that are still needed to end the outage; 0 if there is none.
    left: AtomicU32,
}

/// Consecutive answers that end an outage: a throttled store still answers some requests.
const ANSWERS_AFTER_OUTAGE: u32 = 3;

impl Outage {
    /// Records a failure. Returns true if an outage begins.
    fn record_failure(&self) -> bool {
        self.left.swap(ANSWERS_AFTER_OUTAGE, Ordering::Relaxed) == 0
    }

    /// Records an answer. Returns true if an outage ends.
    fn record_answer(&self) -> bool {
        // Without an outage nothing is written, because this runs for every request.
        self.left.load(Ordering::Relaxed) > 0
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok_and(|left| left == 1)
    }
}

/// A permit for one request.
pub(super) struct RequestPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Decrements the counter even if its future is dropped.
struct Waiting<'a>(&'a AtomicU64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RequestGate {
    pub(super) fn new(places: usize) -> RequestGate {
        let places = places.clamp(1, Semaphore::MAX_PERMITS);
        RequestGate {
            places: places as u64,
            free: Arc::new(Semaphore::new(places)),
            waiting: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            transient: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            outage: Outage::default(),
        }
    }

    pub(super) async fn permit(&self) -> RequestPermit {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        // The semaphore is never closed.
        RequestPermit { _permit: self.free.clone().acquire_owned().await.ok() }
    }

    /// Counts the answer to a request about a tenant's objects, or about others.
    pub(super) fn answered<T>(&self, tenant: Option<&TenantId>, answer: &Result<T, StorageError>) {
        PROCESS_USE.add(tenant, ResourceUse { object_requests: 1, ..ResourceUse::default() });
        self.requests.fetch_add(1, Ordering::Relaxed);
        match answer {
            Err(StorageError::Transient { .. }) => self.transient.fetch_add(1, Ordering::Relaxed),
            Err(StorageError::Refused { .. }) => self.refused.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        match answer {
            Err(error @ (StorageError::Transient { .. } | StorageError::Refused { .. }))
                if self.outage.record_failure() =>
            {
                tracing::warn!(error = error.without_key(), "object storage begins to fail");
            }
            Err(StorageError::Transient { .. } | StorageError::Refused { .. }) => {}
            _ if self.outage.record_answer() => tracing::info!("object storage answers again"),
            _ => {}
        }
    }

    pub(super) fn stats(&self) -> StoreStats {
        StoreStats {
            requests: self.requests.load(Ordering::Relaxed),
            transient: self.transient.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            running: self.places - self.free.available_permits() as u64,
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "testkit")]
    use {unslide_model::Owner, uuid::Uuid};

    #[cfg(feature = "testkit")]
    #[tokio::test]
    async fn requests_and_bytes_are_those_of_the_tenant_in_the_key() {
        use super::super::Put;
        use crate::keys;
        let (store, _) = ObjectStore::memory();
        let tenant = TenantId::new("acme").unwrap();
        let own = keys::for_upload::<Uuid>(Owner::Tenant(tenant.clone()).own(Uuid::nil()));
        let system = keys::for_upload::<Uuid>(Owner::System.own(Uuid::nil()));
        for key in [&own, &system] {
            store.put(key, bytes::Bytes::from_static(b"12345"), &Put::default()).await.unwrap();
        }
        store.get(&own, 100).await.unwrap().unwrap();
        store.head(&own).await.unwrap().unwrap();
        let used = |object_requests, object_bytes| ResourceUse {
            object_requests,
            object_bytes,
            ..ResourceUse::default()
        };
        assert_eq!(
            PROCESS_USE.take().into_iter().collect::<Vec<_>>(),
            [(None, used(1, 5)), (Some(tenant), used(3, 10))]
        );
    }

    #[test]
    fn an_outage_begins_and_ends_once_however_many_requests_fail() {
        let outage = Outage::default();
        assert!(!outage.record_answer());
        assert_eq!([(); 3].map(|()| outage.record_failure()), [true, false, false]);
        assert_eq!([(); 2].map(|()| outage.record_answer()), [false, false]);
        assert!(!outage.record_failure(), "it is the same outage");
        assert_eq!([(); 4].map(|()| outage.record_answer()), [false, false, true, false]);
        assert!(outage.record_failure(), "another one");
    }
}
