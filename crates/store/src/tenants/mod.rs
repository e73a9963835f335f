//! Tenants: their identity, whether they are served, and their limits.

pub mod accounts;
pub mod analyses;
pub mod app_settings;
pub mod app_signals;
pub mod app_slots;
pub mod audit;
pub(crate) mod config;
pub mod erasure;
pub mod erasure_requests;
pub mod figures;
pub mod key_erasures;
pub mod keys;
pub mod persons;
pub mod resource_uses;

pub use config::{QuotaLimits, TenantStanding};

use crate::column::{JsonColumn, TenantColumn, U64};
use crate::number::{to_row, to_row32};
use crate::outbox::{self, Message};
use crate::{OwnerTx, Result, Store, StoreError, TenantTx};
use serde::Serialize;
use std::collections::BTreeSet;
use time::OffsetDateTime;
use unslide_model::TenantId;
use utoipa::ToSchema;

/// A tenant: its state and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Tenant)]
pub struct TenantRecord {
    /// Its slug: what it is called in topics, object keys and rows. Never changes.
    #[schema(value_type = String, pattern = "^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$", example = "acme")]
    pub id: TenantId,
    /// Display name of the tenant, for people.
    pub name: String,
    /// State of the tenant: `active`, `suspended` or `deleted`.
    #[schema(value_type = String)]
    pub state: TenantStanding,
    /// Limits of the tenant; 0 means the service's default.
    pub limits: QuotaLimits,
    /// Counts its changes, from 1.
    pub version: u64,
    /// When the tenant was created (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it was changed last.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// A statement about tenants that begins with `$before` and ends with `$after` their columns.
macro_rules! query_tenants {
    ($before:tt, $after:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            TenantRecord,
            $before
                + r#" slug AS "id!: TenantColumn", name AS "name!", state AS "state!: TenantStanding",
                      limits AS "limits!: JsonColumn<QuotaLimits>", version AS "version!: U64",
                      created_at AS "created_at!", updated_at AS "updated_at!" "#
                + $after,
            $($argument),+
        )
    };
}

pub(crate) fn limits_json(limits: &QuotaLimits) -> Result<serde_json::Value> {
    serde_json::to_value(limits).map_err(|e| StoreError::corrupt("tenants", e))
}

pub(crate) async fn announce_tenant(tx: &mut TenantTx, tenant: &TenantRecord) -> Result<i64> {
    let message = Message::TenantConfig {
        version: tenant.version,
        state: tenant.state,
        limits: tenant.limits,
        at_micros: outbox::to_micros(tenant.updated_at),
    };
    outbox::append_message(tx, &message).await
}

/// Makes the transaction's tenant, and announces it. Returns the tenant and the outbox row of the
/// announcement, which makes the tenant known to the workers (see [`outbox::wait_sent`]); `None` if there is
/// a tenant of that slug already, deleted ones included.
pub async fn create_tenant(
    tx: &mut TenantTx,
    name: &str,
    limits: &QuotaLimits,
) -> Result<Option<(TenantRecord, i64)>> {
    let json = limits_json(limits)?;
    let (connection, slug, now) = tx.parts();
    let tenant = query_tenants!(
        "INSERT INTO tenants (slug, name, limits, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)
         ON CONFLICT DO NOTHING RETURNING",
        "",
        slug,
        name,
        json,
        now
    )
    .fetch_optional(connection)
    .await?;
    let Some(tenant) = tenant else { return Ok(None) };
    let announced = announce_tenant(tx, &tenant).await?;
    Ok(Some((tenant, announced)))
}

/// Changes the transaction's tenant, and announces the change. `None` if there is none, or it was deleted
/// permanently. To delete one, see [`crate::erasure::begin_erasure`].
pub async fn change_tenant(
    tx: &mut TenantTx,
    name: &str,
    state: TenantStanding,
    limits: &QuotaLimits,
) -> Result<Option<(TenantRecord, i64)>> {
    let json = limits_json(limits)?;
    if state == TenantStanding::Deleted {
        tx.allow_erasure().await?;
    }
    let (connection, slug, now) = tx.parts();
    let tenant = query_tenants!(
        "UPDATE tenants SET name = $2, state = $3, limits = $4, version = version + 1, updated_at = $5
         WHERE slug = $1 AND state <> 'deleted' RETURNING",
        "",
        slug,
        name,
        state.as_str(),
        json,
        now
    )
    .fetch_optional(connection)
    .await?;
    let Some(tenant) = tenant else { return Ok(None) };
    let announced = announce_tenant(tx, &tenant).await?;
    Ok(Some((tenant, announced)))
}

/// Returns the transaction's tenant.
pub async fn get(tx: &mut OwnerTx) -> Result<Option<TenantRecord>> {
    let (connection, slug, _) = tx.parts();
    Ok(query_tenants!("SELECT", "FROM tenants WHERE slug = $1", slug).fetch_optional(connection).await?)
}

/// Returns whether the transaction's tenant is served; `None` if there is no such tenant. From here on to the
/// end of the transaction a deletion of it waits.
pub async fn read_standing(tx: &mut OwnerTx) -> Result<Option<TenantStanding>> {
    let (connection, slug, _) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock_shared(hashtextextended('tenant ' || $1, 0))")
        .bind(slug)
        .execute(&mut *connection)
        .await?;
    // A statement of its own: it sees rows that were committed during the wait for the lock.
    let standing =
        sqlx::query_scalar!(r#"SELECT state AS "state: TenantStanding" FROM tenants WHERE slug = $1"#, slug);
    Ok(standing.fetch_optional(connection).await?)
}

/// Returns the tenant as [`get`] does, with the row locked until the transaction ends: for a change of some
/// of it.
pub async fn lock_tenant(tx: &mut TenantTx) -> Result<Option<TenantRecord>> {
    let (connection, slug, _) = tx.parts();
    let locked = query_tenants!("SELECT", "FROM tenants WHERE slug = $1 FOR NO KEY UPDATE", slug);
    Ok(locked.fetch_optional(connection).await?)
}

/// Returns those of these names that no tenant has, or had before it was deleted.
///
/// # Errors
/// If the database fails.
pub async fn find_unknown(store: &Store, names: &BTreeSet<TenantId>) -> Result<BTreeSet<TenantId>> {
    if names.is_empty() {
        return Ok(BTreeSet::new());
    }
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let unknown = sqlx::query_scalar!(
        r#"SELECT name AS "name!: TenantColumn" FROM unslide_unknown_tenants($1) AS name"#,
        &names
    );
    Ok(unknown.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Lists all tenants by slug, from the one after `after` on: for operators.
pub async fn list_tenants(store: &Store, after: Option<&TenantId>, limit: u32) -> Result<Vec<TenantRecord>> {
    let after = after.map_or("", TenantId::as_str);
    let tenants = query_tenants!("SELECT", "FROM unslide_tenants($1, $2)", after, to_row32(limit));
    Ok(tenants.fetch_all(store.pool()).await?)
}

/// Announces every tenant again, for a configuration topic that was lost. Returns their number.
pub async fn announce_all(store: &Store) -> Result<u64> {
    let mut after: Option<TenantId> = None;
    let mut announced = 0;
    loop {
        let page = list_tenants(store, after.as_ref(), 500).await?;
        let Some(last) = page.last() else { return Ok(announced) };
        after = Some(last.id.clone());
        for tenant in page {
            let mut tx = store.tenant(&tenant.id).await?;
            let (connection, slug, _) = tx.parts();
            // Under the row's lock, so that no later change is announced before this one.
            let locked = query_tenants!(
                "SELECT",
                "FROM tenants WHERE slug = $1 AND version >= $2 FOR UPDATE",
                slug,
                to_row(tenant.version)
            );
            let tenant = locked.fetch_one(connection).await?;
            tx.allow_erasure().await?;
            announce_tenant(&mut tx, &tenant).await?;
            tx.commit().await?;
            announced += 1;
        }
    }
}
