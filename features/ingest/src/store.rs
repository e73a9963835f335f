//! The statements about public keys.

mod versions;

use crate::key::{AppPattern, KeyText};
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::sql::{TenantColumn, words};
use unslide_store::tenants::QuotaLimits;
use unslide_store::{Result, Store, TenantTx};
use utoipa::ToSchema;
pub use versions::{
    CountedVersion, KeyToday, KeyVersion, VersionUses, count_versions, list_key_versions, read_today,
};

/// Keys of one tenant that are not closed.
pub const MAX_OPEN_KEYS: i64 = 200;
/// How long a closed key can be opened again. Its row is deleted after that.
pub const REOPEN_PERIOD: Duration = Duration::days(30);
/// How long the counts of a day are kept.
pub const VERSIONS_PERIOD: Duration = Duration::days(90);
/// The time between two records of a key's use.
const USE_INTERVAL: Duration = Duration::MINUTE;

words! {
    /// State of a public key.
    #[derive(ToSchema)]
    pub enum IngestKeyState {
        /// Reports are accepted, and new versions of the app use it.
        Active = "active",
        /// Reports are accepted, and a newer key should be in new versions of the app.
        Retired = "retired",
        /// Reports are refused as with an unknown key.
        Closed = "closed",
    }
}

/// A public key to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewPublicKey)]
pub struct NewIngestKey {
    /// The name of the key, for people.
    #[schema(min_length = 1, max_length = 200, example = "shop, App Store")]
    pub name: String,
    /// Bundle identifiers, or `prefix.*` for all below a prefix. A report of another app is refused.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 20, example = json!(["com.example.shop", "com.example.shop.*"]))]
    pub apps: Vec<AppPattern>,
}

/// A public key, as its administrators see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PublicKey)]
pub struct IngestKey {
    /// Names the key in lists and dead letters: 8 hexadecimal digits of its SHA-256.
    #[schema(example = "5d1c02ab")]
    pub id: String,
    /// The key's text. It is public: apps carry it. Absent in lists, so that no export holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "usp_00000000000000000000000000")]
    pub key: Option<String>,
    /// The name of the key, for people.
    pub name: String,
    /// The apps that it covers.
    #[schema(max_items = 20)]
    pub apps: Vec<String>,
    /// Whether reports are accepted.
    #[schema(value_type = String, example = "active")]
    pub state: IngestKeyState,
    /// The time at which it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// The time at which it was retired.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<OffsetDateTime>,
    /// When it was closed. It can be opened again for 30 days.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<OffsetDateTime>,
    /// When it was used last, give or take a minute.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<OffsetDateTime>,
}

/// The key of a request from an app. It gives no access to any operation.
#[derive(Clone, Debug)]
pub struct CallerKey {
    /// Names the key in logs and dead letters.
    pub id: String,
    /// The tenant that its reports belong to.
    pub tenant: TenantId,
    /// The apps that it covers.
    pub apps: Vec<AppPattern>,
    /// False if the tenant is suspended.
    pub is_tenant_active: bool,
    /// The limits of the tenant.
    pub limits: QuotaLimits,
}

/// Creates a key. Returns None if the tenant has [`MAX_OPEN_KEYS`].
pub async fn create_key(tx: &mut TenantTx, new: &NewIngestKey, text: &KeyText) -> Result<Option<IngestKey>> {
    let (connection, tenant, now) = tx.parts();
    // Two at once must not both be the last one.
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('public keys of ' || $1, 0))", tenant)
        .execute(&mut *connection)
        .await?;
    let apps: Vec<String> = new.apps.iter().map(|app| app.0.clone()).collect();
    let key = sqlx::query_as!(
        IngestKey,
        r#"INSERT INTO ingest_keys (tenant, id, key_text, name, apps, state, created_at)
           SELECT $1, $2, $3, $4, $5, 'active', $6
           WHERE (SELECT count(*) FROM ingest_keys WHERE tenant = $1 AND state <> 'closed') < $7
           RETURNING id, key_text AS "key?", name, apps, state AS "state: IngestKeyState", created_at, retired_at,
                     closed_at, last_used_at"#,
        tenant,
        text.id(),
        text.reveal(),
        new.name,
        &apps,
        now,
        MAX_OPEN_KEYS
    );
    Ok(key.fetch_optional(connection).await?)
}

/// Returns keys of the transaction's tenant, the oldest first, after a position; with `app` only keys that cover this
/// app alone.
pub async fn list_keys(
    tx: &mut TenantTx,
    app: Option<&str>,
    after: Option<(OffsetDateTime, String)>,
    limit: u32,
) -> Result<Vec<IngestKey>> {
    let (connection, tenant, _) = tx.parts();
    let (at, id) = after.unzip();
    let keys = sqlx::query_as!(
        IngestKey,
        r#"SELECT id, key_text AS "key?", name, apps, state AS "state: IngestKeyState", created_at, retired_at,
                  closed_at, last_used_at
           FROM ingest_keys
           WHERE tenant = $1 AND ($2::text IS NULL OR apps = ARRAY[$2])
             AND ($3::timestamptz IS NULL OR (created_at, id) > ($3, $4::text))
           ORDER BY created_at, id LIMIT $5"#,
        tenant,
        app,
        at,
        id,
        i64::from(limit)
    );
    Ok(keys.fetch_all(connection).await?)
}

/// Returns a key; with `app` only one that covers this app alone.
pub async fn get_key(tx: &mut TenantTx, id: &str, app: Option<&str>) -> Result<Option<IngestKey>> {
    let (connection, tenant, _) = tx.parts();
    let key = sqlx::query_as!(
        IngestKey,
        r#"SELECT id, key_text AS "key?", name, apps, state AS "state: IngestKeyState", created_at, retired_at,
                  closed_at, last_used_at
           FROM ingest_keys WHERE tenant = $1 AND id = $2 AND ($3::text IS NULL OR apps = ARRAY[$3])"#,
        tenant,
        id,
        app
    );
    Ok(key.fetch_optional(connection).await?)
}

/// Sets the state of a key; with `app` only of one that covers this app alone. Returns None if there is no such key.
pub async fn set_state(
    tx: &mut TenantTx,
    id: &str,
    app: Option<&str>,
    state: IngestKeyState,
) -> Result<Option<IngestKey>> {
    let (connection, tenant, now) = tx.parts();
    let key = sqlx::query_as!(
        IngestKey,
        r#"UPDATE ingest_keys
           SET state = $4, retired_at = CASE WHEN $4 = 'active' THEN NULL ELSE coalesce(retired_at, $5) END,
               closed_at = CASE WHEN $4 = 'closed' THEN coalesce(closed_at, $5) END
           WHERE tenant = $1 AND id = $2 AND ($3::text IS NULL OR apps = ARRAY[$3])
             AND (closed_at IS NULL OR closed_at > $6)
           RETURNING id, key_text AS "key?", name, apps, state AS "state: IngestKeyState", created_at, retired_at,
                     closed_at, last_used_at"#,
        tenant,
        id,
        app,
        state.as_str(),
        now,
        now - REOPEN_PERIOD
    );
    Ok(key.fetch_optional(connection).await?)
}

/// Finds the key of a request. Returns None if it is unknown or closed, or its tenant was deleted.
pub async fn find_caller(store: &Store, text: &KeyText) -> Result<Option<CallerKey>> {
    let row = sqlx::query!(
        r#"SELECT id AS "id!", tenant AS "tenant!: TenantColumn", apps AS "apps!", tenant_state AS "tenant_state!",
                  tenant_limits AS "limits!: Json<QuotaLimits>"
           FROM unslide_ingest_key($1)"#,
        text.reveal()
    )
    .fetch_optional(store.pool())
    .await?;
    Ok(row.map(|row| CallerKey {
        id: row.id,
        tenant: row.tenant.into(),
        apps: row.apps.into_iter().map(AppPattern).collect(),
        is_tenant_active: row.tenant_state == "active",
        limits: row.limits.0,
    }))
}

/// Records that a key was used, except if that was recorded less than a minute before.
pub async fn record_use(store: &Store, key: &CallerKey) -> Result<()> {
    let mut tx = store.tenant(&key.tenant).await?;
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE ingest_keys SET last_used_at = $3
         WHERE tenant = $1 AND id = $2 AND (last_used_at IS NULL OR last_used_at <= $4)",
        tenant,
        key.id,
        now,
        now - USE_INTERVAL
    )
    .execute(connection)
    .await?;
    tx.commit().await
}
