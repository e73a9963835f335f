//! Changes of keys and tenants, as the database tells of them: a process that hears of each may remember the others.

use crate::{Result, Store, StoreError};
use sqlx::postgres::{PgConnectOptions, PgListener, PgNotification};
use sqlx::{Acquire, Connection};
use unslide_model::TenantId;

/// The channel of the triggers on `tenants` and `api_keys`.
const CHANNEL: &str = "unslide_access";

/// Hears of changes on a connection of its own, which is none of the store's pool: where it hangs, it holds none back.
pub struct AccessListener(PgListener);

impl AccessListener {
    /// Begins to listen: a change that is committed from now on is heard.
    pub async fn new(store: &Store) -> Result<AccessListener> {
        // A dropped listener waits for an answer on its connection before it gives it back, however long that takes.
        let pool = store.pool().options().clone().max_connections(1);
        let pool = pool.connect_lazy_with(PgConnectOptions::clone(&store.pool().connect_options()));
        let mut listener = PgListener::connect_with(&pool).await?;
        // A connection that is made again in silence would hide what was missed.
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(AccessListener(listener))
    }

    /// Waits for the next change, and returns the tenant that it is of; `None` where the connection was lost: only a new
    /// listener hears again. A call that is given up misses nothing.
    pub async fn next(&mut self) -> Result<Option<TenantId>> {
        self.0.try_recv().await?.map(|change| tenant(&change)).transpose()
    }

    /// Asks the database for an answer on the listening connection, and returns the tenants of the changes that came
    /// before it. Once it returns, every change that was committed before the call has been returned.
    ///
    /// The database answers only after it has sent what waits for the connection (`PostgresMain`).
    pub async fn catch_up(&mut self) -> Result<Vec<TenantId>> {
        self.0.acquire().await?.ping().await?;
        std::iter::from_fn(|| self.0.next_buffered()).map(|change| tenant(&change)).collect()
    }
}

fn tenant(change: &PgNotification) -> Result<TenantId> {
    TenantId::new(change.payload()).map_err(|error| StoreError::corrupt("tenants", error))
}
