//! Names keys as their administrators see them.

use super::key::NAMES_KEYS;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use unslide_model::timestamp;
use unslide_store::keys::{KeyFilter, KeyRecord, NewKey, find_record, list_records, revoke_record};
use unslide_store::{Result, TenantTx, Uuid};
use utoipa::ToSchema;

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

impl From<NewNamesKey> for NewKey {
    fn from(new: NewNamesKey) -> NewKey {
        let apps = new.app.into_iter().collect();
        NewKey { name: new.name, scopes: Vec::new(), apps, expires_at: new.expires_at }
    }
}

/// A names key, as its administrators see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NamesKey {
    /// The id of the key's row.
    #[serde(skip)]
    pub row: Uuid,
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

impl From<KeyRecord> for NamesKey {
    fn from(record: KeyRecord) -> NamesKey {
        NamesKey {
            row: record.id,
            id: record.prefix,
            name: record.name,
            app: record.apps.into_iter().next(),
            created_at: record.created_at,
            // A names key always expires.
            expires_at: record.expires_at.unwrap_or(record.created_at),
        }
    }
}

/// Returns the filter of lists: a key that was deleted is gone.
fn filter_keys(app: Option<&str>) -> KeyFilter<'_> {
    KeyFilter { without_revoked: true, ..KeyFilter::for_kind(&NAMES_KEYS, app) }
}

/// Returns keys of the transaction's tenant, the oldest first, after a position; with `app` only keys for this app.
pub async fn list_keys(
    tx: &mut TenantTx,
    app: Option<&str>,
    after: Option<(OffsetDateTime, Uuid)>,
    limit: u32,
) -> Result<Vec<NamesKey>> {
    let keys = list_records(tx, filter_keys(app), after, limit).await?;
    Ok(keys.into_iter().map(NamesKey::from).collect())
}

/// Ends a key; with `app` only one for this app. Returns false if there is no such key.
pub async fn delete_key(tx: &mut TenantTx, id: &str, app: Option<&str>) -> Result<bool> {
    let Some(key) = find_record(tx, filter_keys(app), id).await? else { return Ok(false) };
    revoke_record(tx, &NAMES_KEYS, &key.prefix, app).await
}
