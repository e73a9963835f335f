//! Transactions of a tenant, which waits for its turn: however slow its own are, connections to the
//! database are left for others.

use crate::permits::{Resource, Turn};
use crate::problem::Problem;
use crate::state::Api;
use std::ops::{Deref, DerefMut};
use tokio::runtime::Handle;
use unslide_model::{Owner, TenantId};
use unslide_store::{OwnerTx, StoreError, TenantTx};

/// What ends a transaction.
pub trait Ends: Send + 'static {
    /// Commits it, or rolls it back.
    fn end(self, commit: bool) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl Ends for TenantTx {
    async fn end(self, commit: bool) -> Result<(), StoreError> {
        if commit { self.commit().await } else { self.rollback().await }
    }
}

impl Ends for OwnerTx {
    async fn end(self, commit: bool) -> Result<(), StoreError> {
        if commit { self.commit().await } else { self.rollback().await }
    }
}

/// A transaction and the turn that it takes. Where its request goes away in the middle, the turn is
/// kept until the database is done with what it was asked last: so long that has the connection.
pub struct Tx<T: Ends> {
    /// `None` once it is ended.
    tx: Option<T>,
    /// `None` for what operators do to a tenant, and for the system's symbols.
    turn: Option<Turn>,
}

impl<T: Ends> Deref for Tx<T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "only what consumes it ends it")]
    fn deref(&self) -> &T {
        self.tx.as_ref().expect("it has not ended")
    }
}

impl<T: Ends> DerefMut for Tx<T> {
    #[expect(clippy::expect_used, reason = "only what consumes it ends it")]
    fn deref_mut(&mut self) -> &mut T {
        self.tx.as_mut().expect("it has not ended")
    }
}

impl<T: Ends> From<T> for Tx<T> {
    fn from(tx: T) -> Tx<T> {
        Tx { tx: Some(tx), turn: None }
    }
}

impl<T: Ends> Drop for Tx<T> {
    fn drop(&mut self) {
        let (Some(tx), Some(turn)) = (self.tx.take(), self.turn.take()) else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = tx.end(false).await {
                tracing::debug!(%error, "a transaction that was given up ended with its connection");
            }
            drop(turn);
        });
    }
}

impl<T: Ends> Tx<T> {
    /// As [`TenantTx::commit`].
    ///
    /// # Errors
    /// As there.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.end(true).await
    }

    /// As [`TenantTx::rollback`].
    ///
    /// # Errors
    /// As there.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.end(false).await
    }

    async fn end(mut self, commit: bool) -> Result<(), StoreError> {
        match self.tx.take() {
            Some(tx) => tx.end(commit).await,
            None => Ok(()),
        }
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
        Ok(Tx { tx: Some(self.store.tenant(tenant).await?), turn: Some(turn) })
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
        Ok(Tx { tx: Some(self.store.owner(owner).await?), turn })
    }
}
