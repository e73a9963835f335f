//! The statements about public keys.

mod versions;

use crate::key::PUBLIC_KEYS;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use unslide_store::keys::{KEPT_AFTER_END, KeyFilter, KeyRecord, NewKey, find_record, list_records};
use unslide_store::sql::words;
use unslide_store::{Result, TenantTx, Uuid};
use utoipa::ToSchema;
pub use versions::{
    CountedVersion, KeyToday, KeyVersion, VersionUses, count_versions, list_key_versions, read_today,
};

/// How long the counts of a day are kept.
pub const VERSIONS_PERIOD: Duration = Duration::days(90);

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
    #[schema(min_items = 1, max_items = 20, example = json!(["com.example.shop", "com.example.shop.*"]))]
    pub apps: Vec<String>,
}

/// A public key, as its administrators see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PublicKey)]
pub struct IngestKey {
    /// The id of the key's row.
    #[serde(skip)]
    pub row: Uuid,
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

impl From<NewIngestKey> for NewKey {
    fn from(new: NewIngestKey) -> NewKey {
        NewKey { name: new.name, scopes: Vec::new(), apps: new.apps, expires_at: None }
    }
}

impl From<KeyRecord> for IngestKey {
    fn from(record: KeyRecord) -> IngestKey {
        let state = match (record.revoked_at, record.retired_at) {
            (Some(_), _) => IngestKeyState::Closed,
            (None, Some(_)) => IngestKeyState::Retired,
            (None, None) => IngestKeyState::Active,
        };
        IngestKey {
            row: record.id,
            id: record.prefix,
            key: record.key_text,
            name: record.name,
            apps: record.apps,
            state,
            created_at: record.created_at,
            retired_at: record.retired_at,
            closed_at: record.revoked_at,
            last_used_at: record.last_used_at,
        }
    }
}

/// Returns keys of the transaction's tenant, the oldest first, after a position; with `app` only keys that cover this
/// app alone.
pub async fn list_keys(
    tx: &mut TenantTx,
    app: Option<&str>,
    after: Option<(OffsetDateTime, Uuid)>,
    limit: u32,
) -> Result<Vec<IngestKey>> {
    let keys = list_records(tx, KeyFilter::for_kind(&PUBLIC_KEYS, app), after, limit).await?;
    Ok(keys.into_iter().map(IngestKey::from).collect())
}

/// Returns a key; with `app` only one that covers this app alone.
pub async fn get_key(tx: &mut TenantTx, id: &str, app: Option<&str>) -> Result<Option<IngestKey>> {
    Ok(find_record(tx, KeyFilter::for_kind(&PUBLIC_KEYS, app), id).await?.map(IngestKey::from))
}

/// Sets the state of a key; with `app` only of one that covers this app alone. Returns None if there is no such key.
pub async fn set_state(
    tx: &mut TenantTx,
    id: &str,
    app: Option<&str>,
    state: IngestKeyState,
) -> Result<Option<IngestKey>> {
    let (connection, tenant, now) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE keys
         SET retired_at = CASE WHEN $5 = 'active' THEN NULL ELSE coalesce(retired_at, $6) END,
             revoked_at = CASE WHEN $5 = 'closed' THEN coalesce(revoked_at, $6) END
         WHERE tenant = $1 AND kind = $2 AND prefix = $3 AND ($4::text IS NULL OR apps = ARRAY[$4])
           AND (revoked_at IS NULL OR revoked_at > $7)",
        tenant,
        PUBLIC_KEYS.name,
        id,
        app,
        state.as_str(),
        now,
        now - KEPT_AFTER_END
    )
    .execute(connection)
    .await?;
    if changed.rows_affected() == 0 {
        return Ok(None);
    }
    get_key(tx, id, app).await
}
