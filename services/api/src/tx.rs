//! Transactions of a tenant, which waits for its turn: however slow its own are, connections to the
//! database are left for others.

use crate::permits::{Resource, Turn};
use crate::problem::Problem;
use crate::state::Api;
use std::ops::{Deref, DerefMut};
use unslide_model::{Owner, TenantId};
use unslide_store::{OwnerTx, StoreError, TenantTx};

/// A transaction and the turn that it takes.
pub struct Tx<T> {
    tx: T,
    /// `None` for what operators do to a tenant, and for the system's symbols.
    _turn: Option<Turn>,
}

impl<T> Deref for Tx<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.tx
    }
}

impl<T> DerefMut for Tx<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.tx
    }
}

impl<T> From<T> for Tx<T> {
    fn from(tx: T) -> Tx<T> {
        Tx { tx, _turn: None }
    }
}

impl Tx<TenantTx> {
    /// As [`TenantTx::commit`].
    ///
    /// # Errors
    /// As there.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().await
    }

    /// As [`TenantTx::rollback`].
    ///
    /// # Errors
    /// As there.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await
    }
}

impl Tx<OwnerTx> {
    /// As [`OwnerTx::commit`].
    ///
    /// # Errors
    /// As there.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().await
    }

    /// As [`OwnerTx::rollback`].
    ///
    /// # Errors
    /// As there.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await
    }
}

impl Api {
    /// Begins a transaction of the tenant whose key it is, when it is its turn. A request has one at a
    /// time.
    ///
    /// # Errors
    /// Where the database can't be reached.
    pub async fn tenant(&self, tenant: &TenantId) -> Result<Tx<TenantTx>, Problem> {
        let turn = self.permits.turn(tenant, Resource::Connections).await?;
        Ok(Tx { tx: self.store.tenant(tenant).await?, _turn: Some(turn) })
    }

    /// The same for an owner of symbols.
    ///
    /// # Errors
    /// As [`Api::tenant`].
    pub async fn owner(&self, owner: &Owner) -> Result<Tx<OwnerTx>, Problem> {
        let turn = match owner {
            Owner::Tenant(tenant) => Some(self.permits.turn(tenant, Resource::Connections).await?),
            Owner::System => None,
        };
        Ok(Tx { tx: self.store.owner(owner).await?, _turn: turn })
    }
}
