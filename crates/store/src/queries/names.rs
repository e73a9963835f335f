//! Names of apps and versions that contain a text.

use crate::{Result, TenantTx};

/// Names that are compared with the text, in their order from the first or last one. Of further names those from the text on
/// are compared.
const WALKED_NAMES_LIMIT: i64 = 1_000;
/// Names that are compared from the text on. Those that begin with the text come first in this order.
const FOLLOWING_NAMES_LIMIT: i64 = 200;
/// Newest rows of days that versions of all apps are taken from.
const RECENT_ROWS_LIMIT: i64 = 5_000;
/// Newest apps in which a version with exactly this name is found.
const RECENT_APPS_LIMIT: u32 = 100;

/// A version of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionName {
    /// Bundle identifier of the app.
    pub app: String,
    /// The version.
    pub version: String,
}

/// Lists apps with a text in their name, in any case, at most `limit`: first those that begin with it, and of these that
/// of the newest report first. With `only` that app alone is compared.
pub async fn find_apps(tx: &mut TenantTx, only: Option<&str>, text: &str, limit: u32) -> Result<Vec<String>> {
    let (connection, tenant, _) = tx.parts();
    // From app to app, one index look-up each: the rows of an app's other days and versions are not read.
    Ok(sqlx::query_scalar!(
        r#"WITH RECURSIVE walked AS (
               (SELECT app, day FROM app_days
                WHERE tenant = $1 AND reports > 0 AND ($2::text IS NULL OR app = $2)
                ORDER BY app, day DESC, version DESC LIMIT 1)
               UNION ALL
               SELECT n.app, n.day FROM walked w CROSS JOIN LATERAL
                    (SELECT d.app, d.day FROM app_days d
                     WHERE d.tenant = $1 AND d.reports > 0 AND $2::text IS NULL AND d.app > w.app
                     ORDER BY d.app, d.day DESC, d.version DESC LIMIT 1) n),
           following AS (
               (SELECT app, day FROM app_days
                WHERE tenant = $1 AND reports > 0 AND $2::text IS NULL AND app >= $3
                ORDER BY app, day DESC, version DESC LIMIT 1)
               UNION ALL
               SELECT n.app, n.day FROM following w CROSS JOIN LATERAL
                    (SELECT d.app, d.day FROM app_days d
                     WHERE d.tenant = $1 AND d.reports > 0 AND d.app > w.app
                     ORDER BY d.app, d.day DESC, d.version DESC LIMIT 1) n)
           SELECT f.app AS "app!" FROM (
               (SELECT w.app, w.day FROM walked w LIMIT $5) UNION (SELECT n.app, n.day FROM following n LIMIT $6)) f
           WHERE strpos(lower(f.app), lower($3::text)) > 0
           ORDER BY strpos(lower(f.app), lower($3::text)) = 1 DESC, f.day DESC, f.app LIMIT $4"#,
        tenant,
        only,
        text,
        i64::from(limit),
        WALKED_NAMES_LIMIT,
        FOLLOWING_NAMES_LIMIT
    )
    .fetch_all(connection)
    .await?)
}

/// Lists versions with a text in their name, in any case, at most `limit`: first those that begin with it, and of these that
/// of the newest report first. With `app` only its versions are compared, otherwise those with recent reports, and in the
/// apps with the newest reports one with exactly this name.
pub async fn find_versions(
    tx: &mut TenantTx,
    app: Option<&str>,
    text: &str,
    limit: u32,
) -> Result<Vec<VersionName>> {
    match app {
        Some(app) => find_versions_of_app(tx, app, text, limit).await,
        None => find_recent_versions(tx, text, limit).await,
    }
}

async fn find_versions_of_app(
    tx: &mut TenantTx,
    app: &str,
    text: &str,
    limit: u32,
) -> Result<Vec<VersionName>> {
    let (connection, tenant, _) = tx.parts();
    // From version to version, as apps are found.
    Ok(sqlx::query_as!(
        VersionName,
        r#"WITH RECURSIVE walked AS (
               (SELECT version FROM app_days
                WHERE tenant = $1 AND app = $2 AND reports > 0 ORDER BY version DESC, day DESC LIMIT 1)
               UNION ALL
               SELECT n.version FROM walked w CROSS JOIN LATERAL
                    (SELECT d.version FROM app_days d
                     WHERE d.tenant = $1 AND d.app = $2 AND d.reports > 0 AND d.version < w.version
                     ORDER BY d.version DESC, d.day DESC LIMIT 1) n),
           following AS (
               (SELECT version FROM app_days
                WHERE tenant = $1 AND app = $2 AND reports > 0 AND version >= $3 ORDER BY version, day LIMIT 1)
               UNION ALL
               SELECT n.version FROM following w CROSS JOIN LATERAL
                    (SELECT d.version FROM app_days d
                     WHERE d.tenant = $1 AND d.app = $2 AND d.reports > 0 AND d.version > w.version
                     ORDER BY d.version, d.day LIMIT 1) n)
           SELECT $2::text AS "app!", f.version AS "version!" FROM (
               (SELECT w.version FROM walked w LIMIT $5) UNION (SELECT n.version FROM following n LIMIT $6)) f
           CROSS JOIN LATERAL
               (SELECT l.day FROM app_days l
                WHERE l.tenant = $1 AND l.app = $2 AND l.version = f.version AND l.reports > 0
                ORDER BY l.day DESC LIMIT 1) l
           WHERE f.version <> '' AND strpos(lower(f.version), lower($3::text)) > 0
           ORDER BY strpos(lower(f.version), lower($3::text)) = 1 DESC, l.day DESC, f.version DESC LIMIT $4"#,
        tenant,
        app,
        text,
        i64::from(limit),
        WALKED_NAMES_LIMIT,
        FOLLOWING_NAMES_LIMIT
    )
    .fetch_all(connection)
    .await?)
}

async fn find_recent_versions(tx: &mut TenantTx, text: &str, limit: u32) -> Result<Vec<VersionName>> {
    let apps = super::apps::list_app_names(tx, None, RECENT_APPS_LIMIT).await?;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        VersionName,
        r#"SELECT f.app AS "app!", f.version AS "version!" FROM (
               SELECT r.app, r.version, max(r.day) AS day FROM (
                   (SELECT app, version, day FROM app_days WHERE tenant = $1 AND reports > 0
                    ORDER BY day DESC, app DESC LIMIT $5)
                   UNION ALL
                   SELECT a.app, $2::text, e.day FROM unnest($4::text[]) AS a (app) CROSS JOIN LATERAL
                       (SELECT d.day FROM app_days d
                        WHERE d.tenant = $1 AND d.app = a.app AND d.version = $2 AND d.reports > 0
                        ORDER BY d.day DESC LIMIT 1) e) r
               WHERE r.version <> '' AND strpos(lower(r.version), lower($2::text)) > 0
               GROUP BY r.app, r.version) f
           ORDER BY strpos(lower(f.version), lower($2::text)) = 1 DESC, f.day DESC, f.app, f.version DESC LIMIT $3"#,
        tenant,
        text,
        i64::from(limit),
        &apps,
        RECENT_ROWS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}
