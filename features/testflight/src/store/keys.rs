//! The statements about keys of App Store Connect, and when they are used.

use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::sql::TenantColumn;
use unslide_store::{Result, Store, TenantTx};

/// How long a process polls at most. Longer than a turn takes.
const POLL_LEASE: Duration = Duration::minutes(10);

/// The key of App Store Connect of a tenant.
#[derive(Clone, Debug)]
pub struct InboxKey {
    /// None for a key of one person.
    pub issuer_id: Option<String>,
    pub key_id: String,
    /// The private key, encrypted.
    pub sealed_key: Vec<u8>,
    pub expires_at: Option<OffsetDateTime>,
    pub changed_at: OffsetDateTime,
    pub next_poll_at: OffsetDateTime,
    /// Until when Apple wants no request.
    pub not_before: Option<OffsetDateTime>,
    pub polled_at: Option<OffsetDateTime>,
    /// Polls in a row that failed.
    pub failures: i32,
    pub problem: Option<String>,
}

/// A key to be set.
#[derive(Clone, Debug)]
pub struct NewInboxKey {
    pub issuer_id: Option<String>,
    pub key_id: String,
    pub sealed_key: Vec<u8>,
    pub expires_at: Option<OffsetDateTime>,
    /// Apps, with Apple's ids of them as far as they are known.
    pub apps: Vec<(String, Option<String>)>,
    pub problem: Option<String>,
}

/// An app of which submissions are taken.
#[derive(Clone, Debug)]
pub struct InboxApp {
    pub app: String,
    pub apple_id: Option<String>,
    /// True if its list was never read to the end, or not by the process that has begun it last.
    pub is_reading: bool,
}

/// The end of a poll.
#[derive(Clone, Debug)]
pub struct PollEnd {
    /// The pause until the next one.
    pub pause: Duration,
    /// True if Apple wants no request before that.
    pub is_held: bool,
    pub problem: Option<String>,
}

/// Returns the key of the transaction's tenant.
pub async fn get_key(tx: &mut TenantTx) -> Result<Option<InboxKey>> {
    let (connection, tenant, _) = tx.parts();
    let key = sqlx::query_as!(
        InboxKey,
        "SELECT issuer_id, key_id, sealed_key, expires_at, changed_at, next_poll_at, not_before, polled_at, failures, problem
         FROM testflight_keys WHERE tenant = $1",
        tenant
    );
    Ok(key.fetch_optional(connection).await?)
}

/// Returns the apps of the transaction's tenant.
pub async fn list_apps(tx: &mut TenantTx) -> Result<Vec<InboxApp>> {
    let (connection, tenant, _) = tx.parts();
    let apps = sqlx::query_as!(
        InboxApp,
        "SELECT app, apple_id, is_reading FROM testflight_apps WHERE tenant = $1 ORDER BY app",
        tenant
    );
    Ok(apps.fetch_all(connection).await?)
}

/// Sets the key of the transaction's tenant, and has it polled at once. A poll that is under way with another key ends without
/// effect on this one.
pub async fn set_key(tx: &mut TenantTx, new: &NewInboxKey) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO testflight_keys (tenant, issuer_id, key_id, sealed_key, expires_at, changed_at, next_poll_at, problem)
         VALUES ($1, $2, $3, $4, $5, $6, $6, $7)
         ON CONFLICT (tenant) DO UPDATE SET issuer_id = $2, key_id = $3, sealed_key = $4, expires_at = $5, changed_at = $6,
             next_poll_at = $6, problem = $7, not_before = NULL, leased_until = NULL, failures = 0",
        tenant,
        new.issuer_id,
        new.key_id,
        new.sealed_key,
        new.expires_at,
        now,
        new.problem
    )
    .execute(&mut *connection)
    .await?;
    let (apps, ids): (Vec<String>, Vec<Option<String>>) = new.apps.iter().cloned().unzip();
    sqlx::query!("DELETE FROM testflight_apps WHERE tenant = $1 AND app <> ALL ($2)", tenant, &apps)
        .execute(&mut *connection)
        .await?;
    sqlx::query!(
        "INSERT INTO testflight_apps (tenant, app, apple_id)
         SELECT $1, a.app, a.apple_id FROM unnest($2::text[], $3::text[]) AS a (app, apple_id) ORDER BY a.app
         ON CONFLICT (tenant, app) DO UPDATE SET apple_id = excluded.apple_id",
        tenant,
        &apps,
        &ids as &[Option<String>]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes the key of the transaction's tenant, with its apps. Submissions that were seen stay. Returns the key's id.
pub async fn remove_key(tx: &mut TenantTx) -> Result<Option<String>> {
    let (connection, tenant, _) = tx.parts();
    let removed =
        sqlx::query_scalar!("DELETE FROM testflight_keys WHERE tenant = $1 RETURNING key_id", tenant);
    Ok(removed.fetch_optional(connection).await?)
}

/// Has the tenant's submissions asked for at once, or as soon as Apple wants requests again. Does nothing without a key.
pub async fn request_poll(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE testflight_keys SET next_poll_at = least(next_poll_at, $2) WHERE tenant = $1",
        tenant,
        now
    );
    changed.execute(connection).await?;
    Ok(())
}

/// Returns tenants whose submissions are to be asked for.
pub async fn list_due(store: &Store, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_testflight_due($1, $2)"#,
        store.now(),
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Claims the poll of the transaction's tenant for this process. Returns None if it is not due, or another process polls.
pub async fn claim_poll(tx: &mut TenantTx) -> Result<Option<InboxKey>> {
    let (connection, tenant, now) = tx.parts();
    let claimed = sqlx::query_as!(
        InboxKey,
        "UPDATE testflight_keys SET leased_until = $3
         WHERE tenant = $1 AND next_poll_at <= $2 AND (not_before IS NULL OR not_before <= $2)
           AND (leased_until IS NULL OR leased_until <= $2)
         RETURNING issuer_id, key_id, sealed_key, expires_at, changed_at, next_poll_at, not_before, polled_at, failures, problem",
        tenant,
        now,
        now + POLL_LEASE
    );
    Ok(claimed.fetch_optional(connection).await?)
}

/// Records the end of a poll, unless the key was changed since.
pub async fn finish_poll(tx: &mut TenantTx, claimed: &InboxKey, end: &PollEnd) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let next = now + end.pause;
    sqlx::query!(
        "UPDATE testflight_keys SET leased_until = NULL, polled_at = $3, next_poll_at = $4, not_before = $5, problem = $6,
             failures = CASE WHEN $6::text IS NULL THEN 0 ELSE failures + 1 END
         WHERE tenant = $1 AND changed_at = $2",
        tenant,
        claimed.changed_at,
        now,
        next,
        end.is_held.then_some(next),
        end.problem
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records Apple's id of an app.
pub async fn set_apple_id(tx: &mut TenantTx, app: &str, apple_id: &str) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE testflight_apps SET apple_id = $3 WHERE tenant = $1 AND app = $2",
        tenant,
        app,
        apple_id
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that the list of an app is being read, or was read to its end.
pub async fn set_reading(tx: &mut TenantTx, app: &str, is_reading: bool) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE testflight_apps SET is_reading = $3 WHERE tenant = $1 AND app = $2",
        tenant,
        app,
        is_reading
    )
    .execute(connection)
    .await?;
    Ok(())
}
