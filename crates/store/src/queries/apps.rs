//! The apps that reports came from.

use super::day;
use crate::{Result, TenantTx};
use serde::Serialize;
use time::Date;
use utoipa::ToSchema;

/// Rows of an app, one for each of its versions and days, that its figures are made of: those of its most
/// recent days, if a client sends reports of ever new versions.
const APP_ROWS_LIMIT: i64 = 100_000;

/// The most apps that the list shows: it leaves out the least recently seen. Reports keep their app, and are
/// found by it.
pub const MOST_LISTED: i64 = 1_000;

/// Apps of a tenant that are all looked at for a page.
const MOST_WALKED: i64 = 500;

/// An app that reports came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = App)]
pub struct AppSummary {
    /// Bundle identifier; empty for reports that name none.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Number of versions with reports.
    pub versions: i64,
    /// Number of reports. A sampled report counts with its weight: the number of reports that it represents.
    pub reports: i64,
    /// True if `reports` is an estimate, because some of them were sampled.
    pub estimated: bool,
    /// Number of reports of crashes that ended the app.
    pub crashes: i64,
    /// The day of the first report (UTC).
    #[serde(with = "day")]
    pub first_day: Date,
    /// The day of the last report (UTC).
    #[serde(with = "day")]
    pub last_day: Date,
}

/// Lists the tenant's apps, at most [`MOST_LISTED`], that of the newest report first, from the one after
/// `after` (its last day and its name) on; with `only` that app alone.
pub async fn list_apps(
    tx: &mut TenantTx,
    only: Option<&str>,
    after: Option<(Date, &str)>,
    limit: u32,
) -> Result<Vec<AppSummary>> {
    let page = list_recent_apps(tx, only, after, limit).await?;
    let (apps, days): (Vec<String>, Vec<Date>) = page.into_iter().unzip();
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        AppSummary,
        r#"SELECT p.app AS "app!", f.versions AS "versions!", f.reports AS "reports!", f.estimated AS "estimated!", f.crashes AS "crashes!",
                  f.first_day AS "first_day!", p.day AS "last_day!"
           FROM unnest($2::text[], $3::date[]) AS p (app, day) CROSS JOIN LATERAL
                (SELECT count(*) AS versions, sum(v.reports)::bigint AS reports, sum(v.crashes)::bigint AS crashes,
                        sum(v.extrapolated) > 0 AS estimated, min(v.first_day) AS first_day
                 FROM (SELECT sum(r.reports) AS reports, sum(r.extrapolated) AS extrapolated, sum(r.fatal) AS crashes,
                              min(r.day) AS first_day
                       FROM (SELECT d.version, d.day, d.reports, d.extrapolated, d.fatal FROM app_days d
                             WHERE d.tenant = $1 AND d.app = p.app AND d.reports > 0
                             ORDER BY d.day DESC LIMIT $4) r
                       GROUP BY r.version) v) f
           ORDER BY p.day DESC, p.app DESC"#,
        tenant,
        &apps,
        &days,
        APP_ROWS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}

/// Returns only the names of the apps at the top of [`list_apps`].
pub async fn list_app_names(tx: &mut TenantTx, only: Option<&str>, limit: u32) -> Result<Vec<String>> {
    Ok(list_recent_apps(tx, only, None, limit).await?.into_iter().map(|(app, _)| app).collect())
}

/// Returns the apps of a page of [`list_apps`], each with the day of its last report.
async fn list_recent_apps(
    tx: &mut TenantTx,
    only: Option<&str>,
    after: Option<(Date, &str)>,
    limit: u32,
) -> Result<Vec<(String, Date)>> {
    let (connection, tenant, _) = tx.parts();
    // From app to app, one index look-up each: the rows of an app's other days and versions are not read. If
    // there are very many apps, from day to day and app to app, back until the page is full.
    let rows = sqlx::query!(
        r#"WITH RECURSIVE walked AS (
               (SELECT app, day FROM app_days
                WHERE tenant = $1 AND reports > 0 AND ($2::text IS NULL OR app = $2)
                ORDER BY app, day DESC, version DESC LIMIT 1)
               UNION ALL
               SELECT n.app, n.day
               FROM walked w CROSS JOIN LATERAL
                    (SELECT d.app, d.day FROM app_days d
                     WHERE d.tenant = $1 AND d.reports > 0 AND $2::text IS NULL AND d.app > w.app
                     ORDER BY d.app, d.day DESC, d.version DESC LIMIT 1) n),
           every AS MATERIALIZED (SELECT w.app, w.day FROM walked w LIMIT $7),
           seen AS (
               (SELECT day, app FROM app_days
                WHERE tenant = $1 AND reports > 0 ORDER BY day DESC, app DESC LIMIT 1)
               UNION ALL
               SELECT n.day, n.app
               FROM seen s CROSS JOIN LATERAL
                    (SELECT d.day, d.app FROM app_days d
                     WHERE d.tenant = $1 AND d.reports > 0 AND (d.day, d.app) < (s.day, s.app)
                     ORDER BY d.day DESC, d.app DESC LIMIT 1) n),
           newest AS (
               SELECT s.app, s.day FROM seen s
               WHERE s.day = (SELECT l.day FROM app_days l
                              WHERE l.tenant = $1 AND l.app = s.app AND l.reports > 0
                              ORDER BY l.day DESC LIMIT 1)
               LIMIT $6)
           SELECT p.app AS "app!", p.day AS "day!" FROM (
               SELECT e.app, e.day FROM every e
               WHERE (SELECT count(*) FROM every) < $7 AND ($3::date IS NULL OR (e.day, e.app) < ($3, $4::text))
               UNION ALL
               (SELECT n.app, n.day FROM newest n
                WHERE (SELECT count(*) FROM every) = $7 AND ($3::date IS NULL OR (n.day, n.app) < ($3, $4::text))
                LIMIT $5)) p
           ORDER BY p.day DESC, p.app DESC LIMIT $5"#,
        tenant,
        only,
        after.map(|(day, _)| day),
        after.map(|(_, app)| app),
        i64::from(limit),
        MOST_LISTED,
        MOST_WALKED
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.app, row.day)).collect())
}
