//! The statements about names keys.

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use unslide_api::feature::path_keys::{PathKey, PathKeyKind};
use unslide_model::{TenantId, timestamp};
use unslide_store::sql::TenantColumn;
use unslide_store::{Result, Store, TenantTx};
use utoipa::ToSchema;

/// Keys of one tenant that have not expired.
pub const MAX_KEYS: i64 = 200;
/// How long an expired key is listed.
pub const LIST_EXPIRED: Duration = Duration::days(30);

/// The kind of names keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamesKeyKind;

impl PathKeyKind for NamesKeyKind {
    const KEY_PREFIX: &'static str = "usn_";
}

/// The text of a names key.
pub type NamesKeyText = PathKey<NamesKeyKind>;

/// A names key to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNamesKey {
    /// The name of the key, for people.
    #[schema(min_length = 1, max_length = 200, example = "profiles of the shop team")]
    pub name: String,
    /// The only app (bundle identifier) that the key reads symbols of; all apps if absent.
    #[schema(max_length = 255)]
    pub app: Option<String>,
    /// When the key expires (RFC 3339), at most 366 days from now; 90 days from now if absent.
    #[serde(default, deserialize_with = "timestamp::deserialize")]
    pub expires_at: Option<OffsetDateTime>,
}

/// A names key, as its administrators see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NamesKey {
    /// Names the key in lists and logs: 8 hexadecimal digits of its SHA-256.
    #[schema(example = "5d1c02ab")]
    pub id: String,
    /// The name of the key, for people.
    pub name: String,
    /// The only app that it reads symbols of; absent if it reads those of all apps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// When the key was created (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When the key expires (RFC 3339). It is listed for 30 days more.
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
}

/// The key of a request of a profiler. It gives no access to any operation.
#[derive(Clone, Debug)]
pub struct NamesCaller {
    /// The id of the key.
    pub id: String,
    /// The tenant that it reads symbols of.
    pub tenant: TenantId,
    /// The only app that it reads symbols of.
    pub app: Option<String>,
    pub expires_at: OffsetDateTime,
}

/// The rest of a key's row that its maker decides.
#[derive(Clone, Copy, Debug)]
pub struct NamesKeyRow<'k> {
    pub name: &'k str,
    pub app: Option<&'k str>,
    pub expires_at: OffsetDateTime,
}

/// Creates a key. Returns None if the tenant has [`MAX_KEYS`].
pub async fn create_key(
    tx: &mut TenantTx,
    new: NamesKeyRow<'_>,
    text: &NamesKeyText,
) -> Result<Option<NamesKey>> {
    let (connection, tenant, now) = tx.parts();
    // Two at once must not both be the last one.
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('names keys of ' || $1, 0))", tenant)
        .execute(&mut *connection)
        .await?;
    let hash = text.to_hash();
    let key = sqlx::query_as!(
        NamesKey,
        "INSERT INTO names_keys (tenant, id, key_hash, name, app, created_at, expires_at)
         SELECT $1, $2, $3, $4, $5, $6, $7
         WHERE (SELECT count(*) FROM names_keys WHERE tenant = $1 AND expires_at > $6) < $8
         RETURNING id, name, app, created_at, expires_at",
        tenant,
        text.id(),
        hash.as_slice(),
        new.name,
        new.app,
        now,
        new.expires_at,
        MAX_KEYS
    );
    Ok(key.fetch_optional(connection).await?)
}

/// Returns keys of the transaction's tenant, the oldest first, after a position; with `app` only keys for this app.
pub async fn list_keys(
    tx: &mut TenantTx,
    app: Option<&str>,
    after: Option<(OffsetDateTime, String)>,
    limit: u32,
) -> Result<Vec<NamesKey>> {
    let (connection, tenant, _) = tx.parts();
    let (at, id) = after.unzip();
    let keys = sqlx::query_as!(
        NamesKey,
        "SELECT id, name, app, created_at, expires_at FROM names_keys
         WHERE tenant = $1 AND ($2::text IS NULL OR app = $2)
           AND ($3::timestamptz IS NULL OR (created_at, id) > ($3, $4::text))
         ORDER BY created_at, id LIMIT $5",
        tenant,
        app,
        at,
        id,
        i64::from(limit)
    );
    Ok(keys.fetch_all(connection).await?)
}

/// Deletes a key; with `app` only one for this app. Returns false if there is no such key.
pub async fn delete_key(tx: &mut TenantTx, id: &str, app: Option<&str>) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let deleted = sqlx::query!(
        "DELETE FROM names_keys WHERE tenant = $1 AND id = $2 AND ($3::text IS NULL OR app = $3)",
        tenant,
        id,
        app
    )
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected() > 0)
}

/// Finds the key of a request. Returns None if it is unknown, or its tenant was deleted.
pub async fn find_caller(store: &Store, text: &NamesKeyText) -> Result<Option<NamesCaller>> {
    let hash = text.to_hash();
    let row = sqlx::query!(
        r#"SELECT id AS "id!", tenant AS "tenant!: TenantColumn", app, expires_at AS "expires_at!"
           FROM unslide_names_key($1)"#,
        hash.as_slice()
    )
    .fetch_optional(store.pool())
    .await?;
    Ok(row.map(|row| NamesCaller {
        id: row.id,
        tenant: row.tenant.into(),
        app: row.app,
        expires_at: row.expires_at,
    }))
}
