//! Apps with owners: their rewrites of paths, and the epoch that says when looks are old.

use serde_json::Value;
use unslide_owners_formats::PathRewrite;
use unslide_store::{Result, TenantTx};

/// Apps with owners that a tenant may have.
pub const APPS_LIMIT: i64 = 200;

/// An app with owners.
#[derive(Clone, Debug)]
pub struct OwnersApp {
    pub app: String,
    pub paths: Vec<PathRewrite>,
    /// Grows with each change of a file or of the rewrites.
    pub epoch: i64,
}

/// A stored list that a later version wrote reads as empty.
fn read_paths(stored: Value) -> Vec<PathRewrite> {
    serde_json::from_value(stored).unwrap_or_default()
}

/// Returns the apps of the transaction's tenant that have owners; with `app` only that one.
pub async fn list_apps(tx: &mut TenantTx, app: Option<&str>, limit: u32) -> Result<Vec<OwnersApp>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT app, paths, epoch FROM owner_apps WHERE tenant = $1 AND ($2::text IS NULL OR app = $2)
           ORDER BY app COLLATE "C" LIMIT $3"#,
        tenant,
        app,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let rows = rows.into_iter();
    Ok(rows.map(|row| OwnersApp { app: row.app, paths: read_paths(row.paths), epoch: row.epoch }).collect())
}

/// Returns an app with owners.
pub async fn get_app(tx: &mut TenantTx, app: &str) -> Result<Option<OwnersApp>> {
    Ok(list_apps(tx, Some(app), 1).await?.pop())
}

/// Begins the next epoch of an app, which makes its groups due, and locks its row. Returns false if the app has no owners yet and
/// the tenant has [`APPS_LIMIT`] apps that have.
pub(super) async fn begin_epoch(tx: &mut TenantTx, app: &str) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    // Two at once must not both be the last one.
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('apps with owners of ' || $1, 0))", tenant)
        .execute(&mut *connection)
        .await?;
    let begun = sqlx::query!(
        "INSERT INTO owner_apps AS a (tenant, app, epoch, changed_at)
         SELECT $1, $2, 1, $3
         WHERE (SELECT count(*) FROM owner_apps WHERE tenant = $1 AND app <> $2) < $4
            OR EXISTS (SELECT FROM owner_apps WHERE tenant = $1 AND app = $2)
         ON CONFLICT (tenant, app) DO UPDATE SET epoch = a.epoch + 1, swept_to = NULL, changed_at = $3",
        tenant,
        app,
        now,
        APPS_LIMIT
    )
    .execute(connection)
    .await?;
    Ok(begun.rows_affected() > 0)
}

/// Sets the rewrites of an app, and makes its groups due if they are other ones. Returns false if the tenant has too many apps.
pub async fn set_paths(tx: &mut TenantTx, app: &str, paths: &[PathRewrite]) -> Result<bool> {
    if get_app(tx, app).await?.is_some_and(|known| known.paths == paths) {
        return Ok(true);
    }
    if !begin_epoch(tx, app).await? {
        return Ok(false);
    }
    let paths = serde_json::to_value(paths).unwrap_or_default();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("UPDATE owner_apps SET paths = $3 WHERE tenant = $1 AND app = $2", tenant, app, paths)
        .execute(connection)
        .await?;
    Ok(true)
}
