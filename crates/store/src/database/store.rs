//! The pool, and transactions that name their tenant.

use super::clock::DatabaseClock;
use crate::{Result, Settings, StoreError, StoreHook, migrations};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Postgres, Row, Transaction};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use time::{OffsetDateTime, UtcOffset};
use tokio::runtime::Handle;
use unslide_history::History;
use unslide_model::{Clock, Owner, Stats, TenantId};

/// A connection that was returned within this time is used again without a check that it still works: the
/// pool checks it on return.
const UNCHECKED_IDLE_LIMIT: Duration = Duration::from_secs(1);

/// A pool of connections to a migrated database. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pool: PgPool,
    clock: Arc<dyn Clock>,
    /// In the order in which they run.
    hooks: Arc<[StoreHook]>,
    history: Option<History>,
}

impl Store {
    /// Connects, and makes sure of three things: the schema is as this program knows it, the role that the
    /// connections act as cannot bypass row-level security, and the login cannot leave that role for one that
    /// can (see [`Settings::any_login`]). Times are the database's, not those of the hosts' wall clocks.
    /// `clock` adds the time that has passed since the last query of the database's clock.
    ///
    /// # Errors
    /// Returns an error if the database cannot be reached, is not migrated, or the role or the login is too
    /// powerful.
    pub async fn connect(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Store> {
        let database = Arc::new(DatabaseClock::new(clock));
        check_session(&connect_options(settings)?, &settings.role).await?;
        let pool = connect_pool(settings, database.clone()).await?;
        Store::check_role_and_schema(
            settings,
            Store { pool, clock: database, hooks: Arc::default(), history: None },
        )
        .await
    }

    /// Connects with times by `clock` instead of the database's, for tests that control time. Does not look for a pooler, which takes
    /// two more connections.
    ///
    /// # Errors
    /// As [`Store::connect`].
    pub async fn connect_timed(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Store> {
        let unused = Arc::new(DatabaseClock::new(clock.clone()));
        let pool = connect_pool(settings, unused).await?;
        Store::check_role_and_schema(settings, Store { pool, clock, hooks: Arc::default(), history: None })
            .await
    }

    /// Returns the store with the hooks of features, in the order in which they run: each locks rows, so the
    /// order is the same in every process.
    #[must_use]
    pub fn with_hooks(self, hooks: &[StoreHook]) -> Store {
        Store { hooks: hooks.into(), ..self }
    }

    /// Returns the store with a client of ClickHouse, which has the rows of old reports.
    #[must_use]
    pub fn with_history(self, history: Option<History>) -> Store {
        Store { history, ..self }
    }

    /// Returns the client of ClickHouse. `None` if no rows move there.
    #[must_use]
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// Returns the hooks of features, in the order in which they run.
    pub(crate) fn hooks(&self) -> &[StoreHook] {
        &self.hooks
    }

    async fn check_role_and_schema(settings: &Settings, store: Store) -> Result<Store> {
        let mut connection = store.pool.acquire().await?;
        migrations::verify_server(&mut connection).await?;
        let row = sqlx::query(
            "SELECT current_user::text, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user",
        )
        .fetch_one(&mut *connection)
        .await?;
        if row.get::<bool, _>(1) {
            return Err(StoreError::UnsafeRole(row.get(0)));
        }
        migrations::verify_applied(&mut connection).await?;
        if !settings.any_login {
            check_login(&mut connection).await?;
        }
        drop(connection);
        Ok(store)
    }

    /// Begins a transaction of one tenant: it sees that tenant's rows and no others.
    pub async fn tenant(&self, tenant: &TenantId) -> Result<TenantTx> {
        Ok(TenantTx(self.owner(&Owner::Tenant(tenant.clone())).await?))
    }

    /// Begins a transaction of an owner of symbols, which may be the system.
    pub async fn owner(&self, owner: &Owner) -> Result<OwnerTx> {
        self.begin_transaction(Some(owner)).await
    }

    /// Begins a transaction that visits several tenants one after the other.
    pub async fn batch(&self) -> Result<BatchTx> {
        Ok(BatchTx(TenantTx(self.begin_transaction(None).await?)))
    }

    /// Begins a transaction and names its owner in one message. The name is set first, as part of the
    /// implicit transaction of that message: if the message fails, the connection keeps no name.
    async fn begin_transaction(&self, owner: Option<&Owner>) -> Result<OwnerTx> {
        let statement = match owner {
            // The owner is a slug or the system's name: nothing in it ends the text.
            Some(owner) => format!("SET LOCAL unslide.tenant = '{}'; BEGIN", owner.as_str()),
            None => "BEGIN".to_owned(),
        };
        let pool = self.pool.clone();
        let begun = Beginning(Some(Box::pin(async move { pool.begin_with(AssertSqlSafe(statement)).await })));
        let tx = begun.wait_until_begun().await?;
        let (hooks, history) = (self.hooks.clone(), self.history.clone());
        Ok(OwnerTx { tx, owner: owner.cloned(), now: self.clock.now(), hooks, history })
    }

    /// Checks that the database answers.
    ///
    /// # Errors
    /// Returns an error if it does not.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Checks that the database answers and takes writes.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], or the database does not answer.
    pub async fn check_writes(&self) -> Result<()> {
        let takes_none = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean";
        let takes_none: bool = sqlx::query_scalar(takes_none).fetch_one(&self.pool).await?;
        if takes_none { Err(StoreError::ReadOnly) } else { Ok(()) }
    }

    /// Checks that reports can be stored now: the database answers, takes writes, and has the tables of today.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::NoPartitions`], or the database does not answer.
    pub async fn check_storing(&self) -> Result<()> {
        self.check_writes().await?;
        let day = self.clock.now().to_offset(UtcOffset::UTC).date();
        let missing: Option<String> = sqlx::query_scalar(
            "SELECT string_agg(c.relname, ', ' ORDER BY c.relname)
             FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
             WHERE p.partstrat = 'r' AND c.relnamespace = 'public'::regnamespace
               AND to_regclass('public.' || c.relname || '_' || to_char($1::date, 'YYYYMMDD')) IS NULL",
        )
        .bind(day)
        .fetch_one(&self.pool)
        .await?;
        missing.map_or(Ok(()), |tables| Err(StoreError::NoPartitions { day, tables }))
    }

    /// Closes every connection and waits for those that are in use.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Statistics of the connection pool.
    pub const POOL_STATS: [Stats<Store>; 1] = [Stats {
        name: "unslide_postgres_connections",
        help: "Connections to the database, all and those not in use.",
        label: "state",
        read: |store| vec![("open", u64::from(store.pool.size())), ("idle", store.pool.num_idle() as u64)],
    }];

    /// Returns the clock that gives every row its time: the database's, with the host's monotonic clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Returns the connections, for functions of the database's owner, which concern all tenants.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Returns the time by the store's clock.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }
}

/// Makes connections that act as the role of the settings and report the database's time to `clock`.
fn connect_options(settings: &Settings) -> Result<PgConnectOptions> {
    Ok(PgConnectOptions::from_str(settings.url.reveal())?.application_name("unslide"))
}

async fn connect_pool(settings: &Settings, clock: Arc<DatabaseClock>) -> Result<PgPool> {
    let options = connect_options(settings)?;
    let role = settings.role.clone();
    let timeout = settings.statement_timeout_seconds.saturating_mul(1000);
    let asked = clock.clone();
    let pool = PgPoolOptions::new()
        .max_connections(settings.max_connections)
        .acquire_timeout(Duration::from_secs(settings.acquire_timeout_seconds))
        .test_before_acquire(false)
        .before_acquire(move |connection, metadata| {
            let clock = asked.clone();
            Box::pin(async move {
                if clock.is_old() {
                    clock.query_time(connection).await?;
                } else if metadata.idle_for > UNCHECKED_IDLE_LIMIT {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_connect(move |connection, _| {
            let (role, timeout, clock) = (role.clone(), timeout.to_string(), clock.clone());
            Box::pin(async move {
                let begun = clock.monotonic_time();
                let set = sqlx::query_scalar(
                    "SELECT clock_timestamp(), set_config('role', $1, false), \
                     set_config('statement_timeout', $2, false), set_config('timezone', 'UTC', false)",
                );
                clock.record_sample(begun, set.bind(role).bind(timeout).fetch_one(connection).await?);
                Ok(())
            })
        })
        .connect_with(options)
        .await?;
    Ok(pool)
}

/// Makes sure that a connection can take its role, because a pool would not report why it cannot, and that it
/// has a session of its own: a pooler in transaction mode would give the role, locks and settings of one to
/// another.
async fn check_session(options: &PgConnectOptions, role: &str) -> Result<()> {
    // In the simple protocol: prepared statements are what such a pooler breaks first.
    let role = role.replace('\'', "''");
    let ask = format!("SELECT pg_backend_pid(), set_config('role', '{role}', false)");
    let mut one = PgConnection::connect_with(options).await?;
    let served_by: i32 = sqlx::raw_sql(AssertSqlSafe(ask.clone())).fetch_one(&mut one).await?.try_get(0)?;
    // The first connection is idle, and keeps its server's process unless a pooler takes that from it.
    let mut other = PgConnection::connect_with(options).await?;
    let other_by: i32 = sqlx::raw_sql(AssertSqlSafe(ask)).fetch_one(&mut other).await?.try_get(0)?;
    if served_by == other_by {
        return Err(StoreError::SharedSession);
    }
    other.close().await?;
    one.close().await?;
    Ok(())
}

type Begun = sqlx::Result<Transaction<'static, Postgres>>;

/// A transaction that begins. If the caller gives up before it has begun, a task of its own begins it and
/// rolls it back: otherwise the pool would take the connection back in the middle of the transaction, and the
/// next user would be in it.
struct Beginning(Option<Pin<Box<dyn Future<Output = Begun> + Send>>>);

impl Beginning {
    async fn wait_until_begun(mut self) -> Begun {
        let Some(begun) = &mut self.0 else { return Err(sqlx::Error::PoolClosed) };
        let begun = begun.await;
        self.0 = None;
        begun
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        if let (Some(begun), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(begun);
        }
    }
}

/// Makes sure that an attacker who gets a statement into a connection gains nothing by `RESET ROLE`.
async fn check_login(connection: &mut PgConnection) -> Result<()> {
    // A superuser is a member of every role.
    let row = sqlx::query(
        "SELECT session_user::text,
                EXISTS (SELECT FROM pg_roles r
                        WHERE (r.rolsuper OR r.rolbypassrls) AND pg_has_role(session_user, r.oid, 'MEMBER'))
                OR EXISTS (SELECT FROM pg_class c
                           WHERE c.relrowsecurity AND pg_has_role(session_user, c.relowner, 'MEMBER'))",
    )
    .fetch_one(connection)
    .await?;
    if row.get::<bool, _>(1) { Err(StoreError::UnsafeLogin(row.get(0))) } else { Ok(()) }
}

/// A transaction of one owner of symbols: a tenant or the system. Functions on symbols take such a
/// transaction; all others take a [`TenantTx`]. Dropped without [`OwnerTx::commit`], it is rolled back.
pub struct OwnerTx {
    tx: Transaction<'static, Postgres>,
    /// None only inside a [`BatchTx`] that has not entered a tenant: such a transaction sees
    /// no tenant's rows.
    owner: Option<Owner>,
    now: OffsetDateTime,
    hooks: Arc<[StoreHook]>,
    history: Option<History>,
}

/// A transaction of one tenant, which does all that an [`OwnerTx`] does. Dropped without
/// [`TenantTx::commit`], it is rolled back.
pub struct TenantTx(OwnerTx);

impl Deref for TenantTx {
    type Target = OwnerTx;

    fn deref(&self) -> &OwnerTx {
        &self.0
    }
}

impl DerefMut for TenantTx {
    fn deref_mut(&mut self) -> &mut OwnerTx {
        &mut self.0
    }
}

impl From<TenantTx> for OwnerTx {
    fn from(tx: TenantTx) -> OwnerTx {
        tx.0
    }
}

impl TenantTx {
    /// Commits.
    ///
    /// # Errors
    /// Returns an error if the database cannot be reached; whether it committed is then unknown.
    pub async fn commit(self) -> Result<()> {
        self.0.commit().await
    }

    /// Rolls back at once.
    pub async fn rollback(self) -> Result<()> {
        self.0.rollback().await
    }
}

impl OwnerTx {
    async fn enter_owner(&mut self, owner: &Owner) -> Result<()> {
        sqlx::query("SELECT set_config('unslide.tenant', $1, true)")
            .bind(owner.as_str())
            .execute(&mut *self.tx)
            .await?;
        self.owner = Some(owner.clone());
        Ok(())
    }

    /// Returns the hooks of features, in the order in which they run.
    pub(crate) fn hooks(&self) -> Arc<[StoreHook]> {
        self.hooks.clone()
    }

    /// Returns the client of ClickHouse. `None` if no rows move there.
    #[must_use]
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// Returns true for a transaction of the system.
    pub(crate) fn is_system(&self) -> bool {
        self.owner == Some(Owner::System)
    }

    /// Commits.
    ///
    /// # Errors
    /// Returns an error if the database cannot be reached; whether it committed is then unknown.
    pub async fn commit(self) -> Result<()> {
        Ok(self.tx.commit().await?)
    }

    /// Rolls back at once.
    pub async fn rollback(self) -> Result<()> {
        Ok(self.tx.rollback().await?)
    }

    /// Returns the transaction's tenant.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] in a transaction of the system.
    pub fn tenant(&self) -> Result<TenantId> {
        let tenant = self.owner.as_ref().and_then(Owner::tenant);
        tenant.cloned().ok_or_else(|| StoreError::corrupt("tenants", "the system has no tenant"))
    }

    /// Returns the time at which this transaction began: the time of everything that it writes.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        self.now
    }

    /// Allows this transaction to write although its tenant is deleted: it records the deletion.
    pub(crate) async fn allow_erasure(&mut self) -> Result<()> {
        sqlx::query("SELECT set_config('unslide.erasing', 'on', true)").execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Returns connection, owner and time, to be used at once in one statement.
    pub fn parts(&mut self) -> (&mut PgConnection, &str, OffsetDateTime) {
        (&mut self.tx, self.owner.as_ref().map_or("", Owner::as_str), self.now)
    }
}

/// A transaction that visits several tenants one after the other. Dropped without
/// [`BatchTx::commit`], it is rolled back.
pub struct BatchTx(TenantTx);

impl BatchTx {
    /// Goes on in this tenant, and leaves the one before. Tenants are to be entered in ascending
    /// order, so that two batches never wait for each other's rows.
    pub async fn enter_tenant(&mut self, tenant: &TenantId) -> Result<&mut TenantTx> {
        self.0.enter_owner(&Owner::Tenant(tenant.clone())).await?;
        Ok(&mut self.0)
    }

    /// Returns the transaction of a tenant that a statement has entered.
    pub(crate) fn mark_entered(&mut self, tenant: &TenantId) -> &mut TenantTx {
        self.0.0.owner = Some(Owner::Tenant(tenant.clone()));
        &mut self.0
    }

    /// Commits.
    ///
    /// # Errors
    /// Returns an error if the database cannot be reached; whether it committed is then unknown.
    pub async fn commit(self) -> Result<()> {
        self.0.commit().await
    }

    /// Rolls back at once.
    pub async fn rollback(self) -> Result<()> {
        self.0.rollback().await
    }

    /// Returns the connection and the time, for tables that belong to no tenant.
    pub(crate) fn parts(&mut self) -> (&mut PgConnection, OffsetDateTime) {
        (&mut self.0.0.tx, self.0.0.now)
    }
}
