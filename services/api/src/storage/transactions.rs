//! Transactions of a tenant, each with a permit for its connection. Slow transactions of one tenant cannot
//! take all database connections.

use crate::limits::permits::Permit;
use crate::problem::Problem;
use std::ops::{Deref, DerefMut};
use tokio::runtime::Handle;
use tracing::Instrument;
use unslide_store::{OwnerTx, StoreError};

/// A transaction and the permit for its connection. If the request is cancelled, even while the transaction
/// begins or ends, the permit is held until the database has answered: until then the connection is in use.
pub struct Tx<T: Into<OwnerTx> + Send + 'static> {
    /// `None` once it is ended.
    tx: Option<T>,
    /// `None` for an operator's change of a tenant, and for the system's symbols.
    permit: Option<Permit>,
}

impl<T: Into<OwnerTx> + Send + 'static> Deref for Tx<T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "only what consumes it ends it")]
    fn deref(&self) -> &T {
        self.tx.as_ref().expect("it has not ended")
    }
}

impl<T: Into<OwnerTx> + Send + 'static> DerefMut for Tx<T> {
    #[expect(clippy::expect_used, reason = "only what consumes it ends it")]
    fn deref_mut(&mut self) -> &mut T {
        self.tx.as_mut().expect("it has not ended")
    }
}

impl<T: Into<OwnerTx> + Send + 'static> From<T> for Tx<T> {
    fn from(tx: T) -> Tx<T> {
        Tx { tx: Some(tx), permit: None }
    }
}

impl<T: Into<OwnerTx> + Send + 'static> Drop for Tx<T> {
    fn drop(&mut self) {
        let (Some(tx), Some(permit)) = (self.tx.take(), self.permit.take()) else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = tx.into().rollback().await {
                tracing::debug!(%error, "a transaction that was given up ended with its connection");
            }
            drop(permit);
        });
    }
}

impl<T: Into<OwnerTx> + Send + 'static> Tx<T> {
    /// Commits the transaction, as [`OwnerTx::commit`] does.
    ///
    /// # Errors
    /// The same as [`OwnerTx::commit`].
    pub async fn commit(mut self) -> Result<(), StoreError> {
        let (Some(tx), permit) = (self.tx.take(), self.permit.take()) else { return Ok(()) };
        let tx: OwnerTx = tx.into();
        run_with_permit(permit, async move { tx.commit().await }).await
    }

    /// Rolls the transaction back before work that needs no connection; the end of its scope does the same.
    /// Neither waits for the database, but the permit is held until the database has answered.
    pub fn rollback(self) {
        drop(self);
    }
}

/// Holds a permit until the work is done, even if the request is cancelled.
async fn run_with_permit<T: Send + 'static>(
    permit: Option<Permit>,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    run_detached(async move {
        let done = work.await;
        drop(permit);
        done
    })
    .await
}

/// Runs work to its end even if the request is cancelled: the connection is in use until the database has
/// answered.
pub async fn run_detached<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work.in_current_span()).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only the end of the runtime cancels the task, and this future with it.
            Err(_) => std::future::pending().await,
        },
    }
}

pub(super) async fn begin_with_permit<T: Into<OwnerTx> + Send + 'static>(
    permit: Option<Permit>,
    begun: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<Tx<T>, Problem> {
    Ok(run_detached(async move { Ok::<_, StoreError>(Tx { tx: Some(begun.await?), permit }) }).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::permits::TenantSemaphore;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::sync::Notify;
    use unslide_model::TenantId;

    #[tokio::test]
    async fn a_request_that_goes_away_in_the_middle_of_a_commit_keeps_its_permit_until_the_end() {
        let (connections, tenant) =
            (TenantSemaphore::new("connections", 1, 1), TenantId::new("acme").unwrap());
        let permit = async || connections.acquire(&tenant, 1).await;
        let ended = Arc::new(Notify::new());
        let database = ended.clone();
        let mut commit =
            Box::pin(run_with_permit(Some(permit().await), async move { database.notified().await }));
        assert!(futures::poll!(commit.as_mut()).is_pending());
        drop(commit);
        let mut next = Box::pin(permit());
        assert!(futures::poll!(next.as_mut()).is_pending(), "the connection is in use");
        ended.notify_one();
        tokio::time::timeout(Duration::from_secs(60), next).await.unwrap();
    }
}
