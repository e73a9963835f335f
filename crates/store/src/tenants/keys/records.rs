//! Rows of keys of every kind.

use super::kinds::{KeyKind, KeyPlace, NewKey};
use super::{API_KEYS, api_text, path_text};
use crate::column::ScopesColumn;
use crate::{Result, StoreError, TenantTx, Uuid};
use serde::Serialize;
use time::OffsetDateTime;
use unslide_model::{Scope, Secret};

/// A key of any kind as it can be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyRecord {
    /// The id of the row, and of an API key everywhere else, too.
    pub id: Uuid,
    /// The name of its kind.
    pub kind: String,
    /// Name of the key, for people.
    pub name: String,
    /// The part of the text, or of its hash, that names the key.
    pub prefix: String,
    /// The text of a public key. It is in no list, so that no export holds it.
    #[serde(skip)]
    pub key_text: Option<String>,
    /// Scopes that the key grants.
    pub scopes: Vec<Scope>,
    /// The apps that it is for; empty for all.
    pub apps: Vec<String>,
    /// Id of the key that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<Uuid>,
    /// When the key was created (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When a newer key took its place.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<OffsetDateTime>,
    /// When the key expires; absent if it never does.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<OffsetDateTime>,
    /// When the key was revoked; absent if it was not.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<OffsetDateTime>,
    /// When it was used last, give or take a minute.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<OffsetDateTime>,
}

impl KeyRecord {
    /// Returns the id that lists and the audit log have: of an API key that of its row, of others the prefix.
    #[must_use]
    pub fn shown_id(&self) -> String {
        if self.kind == API_KEYS.name { self.id.to_string() } else { self.prefix.clone() }
    }
}

/// A statement about keys that begins with `$before` and ends with `$after` their columns.
macro_rules! query_keys {
    ($before:tt, $after:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            KeyRecord,
            $before
                + r#" id, kind, name, prefix, key_text, scopes AS "scopes: ScopesColumn", apps, made_by, created_at,
                      retired_at, expires_at, revoked_at, last_used_at "#
                + $after,
            $($argument),+
        )
    };
}

/// Keys that a list has.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyFilter<'f> {
    /// Keys of this kind; of every kind if absent.
    pub kind: Option<&'static KeyKind>,
    /// Keys that are for this app alone.
    pub app: Option<&'f str>,
    /// Leaves revoked keys out.
    pub without_revoked: bool,
}

impl KeyFilter<'_> {
    /// Returns the filter for keys of one kind.
    #[must_use]
    pub fn for_kind<'f>(kind: &'static KeyKind, app: Option<&'f str>) -> KeyFilter<'f> {
        KeyFilter { kind: Some(kind), app, without_revoked: false }
    }

    fn kind_name(&self) -> Option<&'static str> {
        self.kind.map(|kind| kind.name)
    }
}

/// Makes a key of the transaction's tenant that [`KeyKind::check_new`] has checked. `entropy` has to come from the operating
/// system's generator. The text is returned this one time.
///
/// # Errors
/// [`StoreError::TooManyKeys`]; or the database fails.
pub async fn create_record(
    tx: &mut TenantTx,
    kind: &KeyKind,
    new: &NewKey,
    entropy: &[u8; 30],
) -> Result<(KeyRecord, Secret)> {
    insert(tx, kind, new, entropy, None).await
}

pub(super) async fn insert(
    tx: &mut TenantTx,
    kind: &KeyKind,
    new: &NewKey,
    entropy: &[u8; 30],
    made_by: Option<Uuid>,
) -> Result<(KeyRecord, Secret)> {
    check_limit(tx, kind).await?;
    let (text, hashed) = match kind.place {
        KeyPlace::Header => api_text::make_text(entropy),
        KeyPlace::Path(_) | KeyPlace::HeaderBelow(_) => path_text::make_text(kind, entropy),
    };
    let scopes: Vec<String> = new.scopes.iter().map(Scope::to_string).collect();
    let (connection, tenant, now) = tx.parts();
    let key = query_keys!(
        "INSERT INTO keys (id, tenant, kind, name, prefix, key_hash, key_text, scopes, apps, created_at, expires_at, made_by)
         VALUES (unslide_uuid($2), $1, $3, $4, $5, $6, $7, $8, $9, $2, $10, $11) RETURNING",
        "",
        tenant,
        now,
        kind.name,
        new.name,
        hashed.prefix,
        hashed.hash.as_slice(),
        kind.is_public.then(|| text.reveal()),
        &scopes,
        &new.apps,
        new.expires_at,
        made_by
    )
    .fetch_one(connection)
    .await?;
    Ok((key, text))
}

/// Checks the number of keys of a kind. Two keys that are made at once do not go over the limit together: the lock
/// lasts until the commit.
async fn check_limit(tx: &mut TenantTx, kind: &KeyKind) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($2 || ' keys of ' || $1, 0))")
        .bind(tenant)
        .bind(kind.name)
        .execute(&mut *connection)
        .await?;
    // A statement of its own: it sees rows that were committed during the wait for the lock.
    let in_force = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM keys
           WHERE tenant = $1 AND kind = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)"#,
        tenant,
        kind.name,
        now
    )
    .fetch_one(connection)
    .await?;
    if in_force >= i64::from(kind.max_in_force) {
        let (tenant, limit) = (tenant.to_owned(), kind.max_in_force);
        return Err(StoreError::TooManyKeys { tenant, limit, kind: kind.title });
    }
    Ok(())
}

/// Lists keys of the transaction's tenant, the oldest first, from the one after the time of creation and the id in
/// `after` on.
pub async fn list_records(
    tx: &mut TenantTx,
    filter: KeyFilter<'_>,
    after: Option<(OffsetDateTime, Uuid)>,
    limit: u32,
) -> Result<Vec<KeyRecord>> {
    let (connection, tenant, _) = tx.parts();
    let (at, id) = after.unzip();
    Ok(query_keys!(
        "SELECT",
        "FROM keys
         WHERE tenant = $1 AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR apps = ARRAY[$3])
           AND ($4::timestamptz IS NULL OR (created_at, id) > ($4, $5::uuid))
           AND (revoked_at IS NULL OR NOT $6)
         ORDER BY created_at, id LIMIT $7",
        tenant,
        filter.kind_name(),
        filter.app,
        at,
        id,
        filter.without_revoked,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Returns the key of the transaction's tenant with this id or prefix.
pub async fn find_record(tx: &mut TenantTx, filter: KeyFilter<'_>, id: &str) -> Result<Option<KeyRecord>> {
    let (connection, tenant, _) = tx.parts();
    Ok(query_keys!(
        "SELECT",
        "FROM keys
         WHERE tenant = $1 AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR apps = ARRAY[$3])
           AND (revoked_at IS NULL OR NOT $4) AND (prefix = $5 OR id = $6::uuid)",
        tenant,
        filter.kind_name(),
        filter.app,
        filter.without_revoked,
        id,
        Uuid::parse_str(id).ok()
    )
    .fetch_optional(connection)
    .await?)
}

/// Revokes the key of a kind with this id or prefix. Returns false if there is none, or with `app` none that is for that app
/// alone. Revoking it again is no error and keeps the first time.
pub async fn revoke_record(tx: &mut TenantTx, kind: &KeyKind, id: &str, app: Option<&str>) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "UPDATE keys SET revoked_at = coalesce(revoked_at, $4)
         WHERE tenant = $1 AND kind = $2 AND (prefix = $3 OR id = $6::uuid) AND ($5::text IS NULL OR apps = ARRAY[$5])",
        tenant,
        kind.name,
        id,
        now,
        app,
        Uuid::parse_str(id).ok()
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}
