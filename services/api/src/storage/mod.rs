//! Access of operations to stored data. A transaction holds a permit of its tenant for a connection.

pub mod claims;
pub mod transactions;

use crate::limits::capacity::Capacity;
use crate::metrics::Metrics;
use crate::problem::Problem;
use std::sync::Arc;
use transactions::{Tx, begin_with_permit};
use unslide_artifacts::ObjectStore;
use unslide_model::{Clock, Owner, TenantId};
use unslide_store::retention::RetentionSettings;
use unslide_store::{OwnerTx, Store, TenantTx};

/// The database and object storage, as a part of the api's state.
pub struct Storage {
    /// Database of tenants, keys, uploads, objects and reports. Operations of one tenant use [`Storage::tenant`].
    pub store: Store,
    pub objects: ObjectStore,
    pub clock: Arc<dyn Clock>,
    /// How long indexers keep what tenants send.
    pub retention: RetentionSettings,
    pub metrics: Metrics,
    pub capacity: Arc<Capacity>,
}

impl Storage {
    /// Begins a transaction of the key's tenant, after a permit for a connection is free. A request has one
    /// transaction at a time.
    ///
    /// # Errors
    /// The database fails.
    pub async fn tenant(&self, tenant: &TenantId) -> Result<Tx<TenantTx>, Problem> {
        let permit = self.capacity.permits.connections.acquire(tenant, 1).await;
        let (store, tenant) = (self.store.clone(), tenant.clone());
        begin_with_permit(Some(permit), async move { store.tenant(&tenant).await }).await
    }

    /// Begins a transaction for an owner of symbols, as [`Storage::tenant`] does for a tenant.
    ///
    /// # Errors
    /// The same as [`Storage::tenant`].
    pub async fn owner(&self, owner: &Owner) -> Result<Tx<OwnerTx>, Problem> {
        let permit = match owner {
            Owner::Tenant(tenant) => Some(self.capacity.permits.connections.acquire(tenant, 1).await),
            Owner::System => None,
        };
        let (store, owner) = (self.store.clone(), owner.clone());
        begin_with_permit(permit, async move { store.owner(&owner).await }).await
    }
}
