//! Tenants: who they are, whether they are served, and what they may use.

use crate::number::{from_row, to_row};
use crate::outbox::{self, Message};
use crate::{OwnerTx, Result, Store, StoreError, TenantTx};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use unslide_model::TenantId;

/// Whether a tenant is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Served.
    Active,
    /// Nothing is taken from it for now.
    Suspended,
    /// Gone for good. The row stays, so that late records of it are known as such.
    Deleted,
}

impl State {
    /// The state's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Suspended => "suspended",
            State::Deleted => "deleted",
        }
    }

    fn read(text: &str) -> Result<State> {
        [State::Active, State::Suspended, State::Deleted]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| StoreError::corrupt("tenants", format!("state {text}")))
    }
}

/// What a tenant may use. 0 means the service's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Cost units a second, over all partitions: see [`unslide_model::cost`].
    pub units_per_second: u32,
    /// Bytes of one report.
    pub report_bytes: u64,
    /// Bytes of one upload.
    pub upload_bytes: u64,
    /// Bytes of all stored symbols.
    pub symbol_bytes: u64,
    /// Days that reports are kept.
    pub retention_days: u32,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its slug.
    pub id: TenantId,
    /// Its name for people.
    pub name: String,
    /// Whether it is served.
    pub state: State,
    /// What it may use.
    pub limits: Limits,
    /// Counts the changes, from 1.
    pub version: u64,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it was changed last.
    pub updated_at: OffsetDateTime,
}

struct Row {
    slug: String,
    name: String,
    state: String,
    limits: serde_json::Value,
    version: i64,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
}

impl Row {
    fn read(self) -> Result<Tenant> {
        let corrupt = |what: String| StoreError::corrupt("tenants", what);
        Ok(Tenant {
            id: TenantId::new(&self.slug).map_err(|e| corrupt(format!("{}: {e}", self.slug)))?,
            name: self.name,
            state: State::read(&self.state)?,
            limits: serde_json::from_value(self.limits).map_err(|e| corrupt(e.to_string()))?,
            version: from_row(self.version),
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

fn limits_json(limits: &Limits) -> Result<serde_json::Value> {
    serde_json::to_value(limits).map_err(|e| StoreError::corrupt("tenants", e))
}

async fn announce(tx: &mut TenantTx, tenant: &Tenant) -> Result<i64> {
    let message = Message::TenantConfig {
        version: tenant.version,
        state: tenant.state,
        limits: tenant.limits,
        at_micros: outbox::micros(tenant.updated_at),
    };
    outbox::append(tx, &message).await
}

/// Makes the transaction's tenant, and announces it. Gives the tenant and the outbox row whose
/// sending makes it known to the workers (see [`outbox::wait_sent`]); `None` where there is a
/// tenant of that slug already, deleted ones included.
///
/// # Errors
/// Where the database fails.
pub async fn create(tx: &mut TenantTx, name: &str, limits: &Limits) -> Result<Option<(Tenant, i64)>> {
    let json = limits_json(limits)?;
    let (connection, slug, now) = tx.parts();
    let row = sqlx::query_as!(
        Row,
        "INSERT INTO tenants (slug, name, limits, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)
         ON CONFLICT DO NOTHING
         RETURNING slug, name, state, limits, version, created_at, updated_at",
        slug,
        name,
        json,
        now
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let tenant = row.read()?;
    let announced = announce(tx, &tenant).await?;
    Ok(Some((tenant, announced)))
}

/// Changes the transaction's tenant, and announces the change. `None` where there is none, or it was
/// deleted: that is for good. To delete one, see [`crate::erasure::begin`].
///
/// # Errors
/// Where the database fails.
pub async fn change(
    tx: &mut TenantTx,
    name: &str,
    state: State,
    limits: &Limits,
) -> Result<Option<(Tenant, i64)>> {
    let json = limits_json(limits)?;
    if state == State::Deleted {
        tx.erasing().await?;
    }
    let (connection, slug, now) = tx.parts();
    let row = sqlx::query_as!(
        Row,
        "UPDATE tenants SET name = $2, state = $3, limits = $4, version = version + 1, updated_at = $5
         WHERE slug = $1 AND state <> 'deleted'
         RETURNING slug, name, state, limits, version, created_at, updated_at",
        slug,
        name,
        state.as_str(),
        json,
        now
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let tenant = row.read()?;
    let announced = announce(tx, &tenant).await?;
    Ok(Some((tenant, announced)))
}

/// The transaction's tenant.
///
/// # Errors
/// Where the database fails.
pub async fn get(tx: &mut OwnerTx) -> Result<Option<Tenant>> {
    let (connection, slug, _) = tx.parts();
    let row = sqlx::query_as!(
        Row,
        "SELECT slug, name, state, limits, version, created_at, updated_at FROM tenants WHERE slug = $1",
        slug
    )
    .fetch_optional(connection)
    .await?;
    row.map(Row::read).transpose()
}

/// Whether the transaction's tenant is served; `None` where there is none. From here on to the end of
/// the transaction it is not deleted under the caller's hands: whoever deletes it waits.
///
/// # Errors
/// Where the database fails.
pub async fn standing(tx: &mut OwnerTx) -> Result<Option<State>> {
    let (connection, slug, _) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock_shared(hashtextextended('tenant ' || $1, 0))")
        .bind(slug)
        .execute(&mut *connection)
        .await?;
    // A statement of its own: it sees what was committed while the lock was waited for.
    let state = sqlx::query_scalar!("SELECT state FROM tenants WHERE slug = $1", slug)
        .fetch_optional(connection)
        .await?;
    state.map(|state| State::read(&state)).transpose()
}

/// As [`get`], with the row locked until the transaction ends: for a change of some of it.
///
/// # Errors
/// Where the database fails.
pub async fn lock(tx: &mut TenantTx) -> Result<Option<Tenant>> {
    let (connection, slug, _) = tx.parts();
    let row = sqlx::query_as!(
        Row,
        "SELECT slug, name, state, limits, version, created_at, updated_at FROM tenants
         WHERE slug = $1 FOR NO KEY UPDATE",
        slug
    )
    .fetch_optional(connection)
    .await?;
    row.map(Row::read).transpose()
}

/// All tenants by slug, from the one after `after` on: for operators.
///
/// # Errors
/// Where the database fails.
pub async fn list(store: &Store, after: Option<&TenantId>, limit: u32) -> Result<Vec<Tenant>> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT slug AS "slug!", name AS "name!", state AS "state!", limits AS "limits!", version AS "version!",
                  created_at AS "created_at!", updated_at AS "updated_at!"
           FROM unslide_tenants($1, $2)"#,
        after.map_or("", TenantId::as_str),
        crate::number::to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    rows.into_iter().map(Row::read).collect()
}

/// Announces every tenant again, for a configuration topic that was lost. Gives how many.
///
/// # Errors
/// Where the database fails.
pub async fn announce_all(store: &Store) -> Result<u64> {
    let mut after: Option<TenantId> = None;
    let mut announced = 0;
    loop {
        let page = list(store, after.as_ref(), 500).await?;
        let Some(last) = page.last() else { return Ok(announced) };
        after = Some(last.id.clone());
        for tenant in page {
            let mut tx = store.tenant(&tenant.id).await?;
            let (connection, slug, _) = tx.parts();
            // Under the row's lock, so that no later change is announced before this one.
            let row = sqlx::query_as!(
                Row,
                "SELECT slug, name, state, limits, version, created_at, updated_at
                 FROM tenants WHERE slug = $1 AND version >= $2 FOR UPDATE",
                slug,
                to_row(tenant.version)
            )
            .fetch_one(connection)
            .await?;
            tx.erasing().await?;
            announce(&mut tx, &row.read()?).await?;
            tx.commit().await?;
            announced += 1;
        }
    }
}
