//! Keys. All kinds are rows of one table: `kinds` has what a kind declares, `records` the statements for all kinds, `proofs`
//! the look-up of keys that requests present, `path_text` and `api_text` their texts, `apps` the apps that a key is for.
//!
//! This file has the kind of the core: API keys. The text is `unslide_<prefix>_<secret>`: the prefix finds the row, and of the
//! secret only a SHA-256 is kept (it has 200 random bits, so that it cannot be guessed).

mod api_text;
mod apps;
mod kinds;
mod path_text;
mod proofs;
mod records;

pub use api_text::{KEY_BYTES, key_text};
pub use apps::covers_app;
pub use kinds::{ApiKeyType, KeyApps, KeyKind, KeyLifeTime, KeyPlace, KeyType, NewKey};
pub use proofs::{KeyOwner, KeyProof, authenticate, authenticate_all, refresh_all};
pub use records::{KeyFilter, KeyRecord, create_record, find_record, list_records, revoke_record};

use crate::purge;
use crate::tenants::{QuotaLimits, TenantStanding};
use crate::{Result, Store, TenantTx, Uuid};
use api_text::split_key;
use serde::Serialize;
use std::collections::BTreeMap;
use time::{Duration, OffsetDateTime};
use unslide_model::{Scope, Secret, TenantId};
use utoipa::ToSchema;

/// API keys of one tenant that may be in force at once.
pub const MOST_IN_FORCE: u32 = 1_000;

/// API keys, the kind of the core.
pub const API_KEYS: KeyKind = KeyKind {
    name: "api",
    title: "key",
    action: "key",
    prefix: "unslide_",
    place: KeyPlace::Header,
    scopes: &Scope::ALL,
    apps: KeyApps::OneOrAll,
    life_time: KeyLifeTime::Open,
    max_in_force: MOST_IN_FORCE,
    is_public: false,
    counts_in_outages: false,
};

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewApiKey {
    /// Name of the key, for people.
    pub name: String,
    /// Scopes that the key grants, at least one.
    pub scopes: Vec<Scope>,
    /// The only app (bundle identifier) that the key is valid for; all apps if absent.
    pub app: Option<String>,
    /// When the key expires; never if absent. It cannot outlive the key that creates it.
    pub expires_at: Option<OffsetDateTime>,
}

/// A key as it can be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct ApiKey {
    /// Id of the key, to show or revoke it.
    pub id: Uuid,
    /// Name of the key, for people.
    pub name: String,
    /// The public part of its text, after `unslide_`.
    #[schema(example = "k3mw7qzd")]
    pub prefix: String,
    /// Scopes that the key grants.
    #[schema(value_type = Vec<String>, max_items = 8, example = json!(["symbols:write", "symbols:read"]))]
    pub scopes: Vec<Scope>,
    /// The only app (bundle identifier) that the key is valid for; absent if it is valid for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Id of the key that created it, which may be an operator's; absent if it was created on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<Uuid>,
    /// When the key was created (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When the key expires; absent if it never does.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<OffsetDateTime>,
    /// When the key was revoked (RFC 3339); absent if it was not.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<OffsetDateTime>,
    /// When it was used last, give or take a minute.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<OffsetDateTime>,
}

/// Who a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The key's tenant.
    pub tenant: TenantId,
    /// The version of the tenant: each change of its state, limits and grouping rules changes it.
    pub tenant_version: i64,
    /// False if the tenant is suspended: it may read and delete, but not add or change.
    pub active: bool,
    /// The key.
    pub key_id: Uuid,
    /// The key's scopes.
    pub scopes: Vec<Scope>,
    /// The only app that it speaks for.
    pub app: Option<String>,
    /// When the key expires.
    pub expires_at: Option<OffsetDateTime>,
    /// The limits of the key's tenant.
    pub limits: QuotaLimits,
    /// When the key was used last, as far as that is written (see [`record_uses`]).
    pub last_used_at: Option<OffsetDateTime>,
}

impl Principal {
    /// Returns true if the key has this scope.
    #[must_use]
    pub fn has_scope(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Returns itself, unless its key was revoked or is over, or its tenant was deleted.
    #[must_use]
    pub fn in_force(
        self,
        revoked_at: Option<OffsetDateTime>,
        standing: TenantStanding,
        now: OffsetDateTime,
    ) -> Option<Principal> {
        is_usable(revoked_at, self.expires_at, standing, now).then_some(self)
    }
}

/// Returns true for a key that is neither revoked nor over, of a tenant that is not deleted.
fn is_usable(
    revoked_at: Option<OffsetDateTime>,
    expires_at: Option<OffsetDateTime>,
    standing: TenantStanding,
    now: OffsetDateTime,
) -> bool {
    let over = revoked_at.is_some() || expires_at.is_some_and(|end| end <= now);
    !over && standing != TenantStanding::Deleted
}

impl NewApiKey {
    pub(crate) fn to_new_key(&self) -> NewKey {
        NewKey {
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            apps: self.app.clone().into_iter().collect(),
            expires_at: self.expires_at,
        }
    }
}

impl From<KeyRecord> for ApiKey {
    fn from(record: KeyRecord) -> ApiKey {
        ApiKey {
            id: record.id,
            name: record.name,
            prefix: record.prefix,
            scopes: record.scopes,
            app: record.apps.into_iter().next(),
            made_by: record.made_by,
            created_at: record.created_at,
            expires_at: record.expires_at,
            revoked_at: record.revoked_at,
            last_used_at: record.last_used_at,
        }
    }
}

/// Returns the public part of a key's text, if the text has the form of a key. It is fit to be shown and
/// logged.
#[must_use]
pub fn key_prefix(text: &str) -> Option<&str> {
    split_key(text).map(|(prefix, _)| prefix)
}

/// Makes a key of the transaction's tenant. `entropy` has to come from the operating system's generator. The
/// text is returned this one time.
///
/// # Errors
/// [`TooManyKeys`](crate::StoreError::TooManyKeys); or the database fails.
pub async fn create_key(tx: &mut TenantTx, new: &NewApiKey, entropy: &[u8; 30]) -> Result<(ApiKey, Secret)> {
    insert(tx, new, entropy, None).await
}

/// Makes a key as [`create_key`] does, by means of another key, which may be another tenant's. Returns `None` if
/// that key has ended or was revoked in between.
pub async fn create_by(
    tx: &mut TenantTx,
    new: &NewApiKey,
    entropy: &[u8; 30],
    maker: Uuid,
) -> Result<Option<(ApiKey, Secret)>> {
    let (connection, _, now) = tx.parts();
    let may_make = sqlx::query_scalar!(r#"SELECT unslide_key_may_make($1, $2) AS "may_make!""#, maker, now);
    if !may_make.fetch_one(connection).await? {
        return Ok(None);
    }
    insert(tx, new, entropy, Some(maker)).await.map(Some)
}

/// Makes a key and drops its text: a person acts by it. `maker` is the key that set their identity provider. Unlike for
/// [`create_by`], it may have ended: the provider stays unless the key is revoked with the keys that it made.
pub async fn create_for_person(
    tx: &mut TenantTx,
    new: &NewApiKey,
    entropy: &[u8; 30],
    maker: Option<Uuid>,
) -> Result<ApiKey> {
    Ok(insert(tx, new, entropy, maker).await?.0)
}

async fn insert(
    tx: &mut TenantTx,
    new: &NewApiKey,
    entropy: &[u8; 30],
    made_by: Option<Uuid>,
) -> Result<(ApiKey, Secret)> {
    let (key, text) = records::insert(tx, &API_KEYS, &new.to_new_key(), entropy, made_by).await?;
    Ok((key.into(), text))
}

/// The shortest time between two notes of a key's use.
pub const NOTED_EVERY: Duration = Duration::MINUTE;

/// Records when keys were used, except if that was recorded less than [`NOTED_EVERY`] before. Returns the
/// number of rows written.
pub async fn record_uses(store: &Store, uses: &BTreeMap<(TenantId, Uuid), OffsetDateTime>) -> Result<u64> {
    if uses.is_empty() {
        return Ok(0);
    }
    let mut batch = store.batch().await?;
    let mut written = 0;
    for ((tenant, key), at) in uses {
        let tx = batch.enter_tenant(tenant).await?;
        let (connection, tenant, _) = tx.parts();
        let done = sqlx::query!(
            "UPDATE keys SET last_used_at = $3
             WHERE tenant = $1 AND id = $2 AND (last_used_at IS NULL OR last_used_at <= $4)",
            tenant,
            key,
            at,
            *at - NOTED_EVERY
        )
        .execute(connection)
        .await?;
        written += done.rows_affected();
    }
    batch.commit().await?;
    Ok(written)
}

/// Lists the API keys of the transaction's tenant, revoked ones too, oldest first, from the one after the time of
/// creation and the id in `after` on; with `app` those that are limited to that app.
pub async fn list_keys(
    tx: &mut TenantTx,
    app: Option<&str>,
    after: Option<(OffsetDateTime, Uuid)>,
    limit: u32,
) -> Result<Vec<ApiKey>> {
    let keys = list_records(tx, KeyFilter::for_kind(&API_KEYS, app), after, limit).await?;
    Ok(keys.into_iter().map(ApiKey::from).collect())
}

/// Revokes an API key. Returns false if there is none of that id, or with `app` none that is limited to that app.
/// Revoking it again is no error and keeps the first time.
pub async fn revoke_key(tx: &mut TenantTx, id: Uuid, app: Option<&str>) -> Result<bool> {
    revoke_record(tx, &API_KEYS, &id.to_string(), app).await
}

/// Counts the keys in force that a key made, that these made, and so on: of one tenant, or of all.
pub async fn count_made(tx: &mut TenantTx, root: Uuid, within: Option<&TenantId>) -> Result<u64> {
    let (connection, _, now) = tx.parts();
    let number = sqlx::query_scalar!(
        r#"SELECT count(*) AS "number!" FROM unslide_made_keys($1, $2, $3)"#,
        root,
        within.map(TenantId::as_str),
        now
    );
    Ok(number.fetch_one(connection).await?.unsigned_abs())
}

/// Origin of a key, and the number of keys that come from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDescent {
    /// The key.
    pub id: Uuid,
    /// Name and prefix of the key that made it, if that is one of the tenant's that may be seen.
    pub maker: Option<String>,
    /// The number of keys that [`count_made`] counts.
    pub made: i64,
}

/// Returns the descent of keys of the transaction's tenant, in no order; with `app` only makers that are
/// limited to that app are named.
pub async fn list_descent(
    tx: &mut TenantTx,
    keys: &[Uuid],
    app: Option<&str>,
    within: Option<&TenantId>,
) -> Result<Vec<KeyDescent>> {
    let (connection, tenant, now) = tx.parts();
    let found = sqlx::query_as!(
        KeyDescent,
        r#"SELECT k.id, m.name || ' ' || m.prefix AS maker,
                  (SELECT count(*) FROM unslide_made_keys(k.id, $4, $5)) AS "made!"
           FROM keys k LEFT JOIN keys m
             ON m.tenant = k.tenant AND m.id = k.made_by AND ($3::text IS NULL OR m.apps = ARRAY[$3])
           WHERE k.tenant = $1 AND k.id = ANY ($2)"#,
        tenant,
        keys,
        app,
        within.map(TenantId::as_str),
        now
    );
    Ok(found.fetch_all(connection).await?)
}

/// Revokes a key as [`revoke_key`] does, and the keys that [`count_made`] counts, each with an entry in its tenant's
/// audit log. Returns the number of the latter; `None` if [`revoke_key`] returns false: the caller must roll back
/// then. It also covers keys that are being made at the same time.
pub async fn revoke_with_made(
    tx: &mut TenantTx,
    root: Uuid,
    app: Option<&str>,
    within: Option<&TenantId>,
    actor: &str,
) -> Result<Option<u64>> {
    let (connection, _, now) = tx.parts();
    // It locks the key's own row as well, each in its turn: that must not be locked before.
    let number = sqlx::query_scalar!(
        r#"SELECT unslide_revoke_made_keys($1, $2, $3, $4) AS "number!""#,
        root,
        within.map(TenantId::as_str),
        now,
        actor
    );
    let number = number.fetch_one(connection).await?.unsigned_abs();
    Ok(revoke_key(tx, root, app).await?.then_some(number))
}

/// Subjects of one action that [`list_left`] names.
const NAMED_SUBJECTS: usize = 5;
/// Actions that a revocation with the made keys undoes, and sign-ins.
const UNDONE_ACTIONS: [&str; 5] =
    ["key.create", "key.revoke", "sign_in.set", "sign_in.remove", "console.sign_in"];

/// Changes of one kind that keys made, and that their revocation does not undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LeftChanges {
    /// The action, as the audit log has it.
    #[schema(example = "group_view.create")]
    pub action: String,
    /// The first objects of the action, in most cases ids.
    #[schema(max_items = 5)]
    pub subjects: Vec<String>,
    /// Number of other objects.
    pub more: i64,
}

/// Lists what a key and the keys that it made changed in the transaction's tenant besides keys, by the audit log: after a
/// leak, it is to be checked by hand.
pub async fn list_left(tx: &mut TenantTx, root: Uuid) -> Result<Vec<LeftChanges>> {
    let (connection, tenant, _) = tx.parts();
    let undone: Vec<String> = UNDONE_ACTIONS.map(str::to_owned).to_vec();
    let rows = sqlx::query!(
        r#"WITH RECURSIVE made AS (
               SELECT $2::uuid AS id
               UNION
               SELECT k.id FROM made m JOIN keys k ON k.made_by = m.id AND k.tenant = $1
           )
           SELECT l.action, array_agg(DISTINCT l.subject ORDER BY l.subject) AS "subjects!"
           FROM audit_log l JOIN made m ON l.actor = m.id::text
           WHERE l.tenant = $1 AND l.action <> ALL ($3)
           GROUP BY l.action ORDER BY l.action"#,
        tenant,
        root,
        &undone
    );
    let rows = rows.fetch_all(connection).await?;
    let shorten = |action, mut subjects: Vec<String>| {
        let more = subjects.len().saturating_sub(NAMED_SUBJECTS);
        subjects.truncate(NAMED_SUBJECTS);
        LeftChanges { action, subjects, more: i64::try_from(more).unwrap_or(i64::MAX) }
    };
    Ok(rows.into_iter().map(|row| shorten(row.action, row.subjects)).collect())
}

/// How long the row of a revoked or expired key stays visible. The audit log keeps the actions done with it.
pub const KEPT_AFTER_END: Duration = Duration::days(30);

/// Deletes keys that were revoked or ran out long ago, except those that made keys which still exist. Returns
/// their number.
pub async fn purge_keys(store: &Store) -> Result<u64> {
    purge::rows_before(store, "keys", store.now() - KEPT_AFTER_END).await
}
