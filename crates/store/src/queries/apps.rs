//! The apps that reports came from.

use super::day;
use crate::{Result, TenantTx};
use serde::Serialize;
use time::Date;
use utoipa::ToSchema;

/// Rows of an app, one for each of its versions and days, that its figures are made of: those of its most
/// recent days, where somebody sends reports of ever new versions.
const MOST_ROWS: i64 = 100_000;

/// Apps that the list shows: beyond these the least recently seen give way. Reports keep their app, and are found
/// by it.
pub const MOST_LISTED: i64 = 1_000;

/// An app that reports came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = App)]
pub struct AppSummary {
    /// Bundle identifier; empty for reports that name none.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Versions that reports came from.
    pub versions: i64,
    /// Reports.
    pub reports: i64,
    /// The day of the first report (UTC).
    #[serde(with = "day")]
    pub first_day: Date,
    /// The day of the last report (UTC).
    #[serde(with = "day")]
    pub last_day: Date,
}

/// The tenant's apps, at most [`MOST_LISTED`], that of the newest report first, from the one after `after` (its
/// last day and its name) on; with `only` that app alone.
pub async fn list(
    tx: &mut TenantTx,
    only: Option<&str>,
    after: Option<(Date, &str)>,
    limit: u32,
) -> Result<Vec<AppSummary>> {
    let (connection, tenant, _) = tx.parts();
    // From day to day and app to app, a look into the index each, whatever lies between: the rows of an
    // app's other versions are not read.
    Ok(sqlx::query_as!(
        AppSummary,
        r#"WITH RECURSIVE seen AS (
               (SELECT day, app FROM app_days
                WHERE tenant = $1 AND reports > 0 AND ($2::text IS NULL OR app = $2)
                ORDER BY day DESC, app DESC LIMIT 1)
               UNION ALL
               SELECT n.day, n.app
               FROM seen s CROSS JOIN LATERAL
                    (SELECT d.day, d.app FROM app_days d
                     WHERE d.tenant = $1 AND d.reports > 0 AND ($2::text IS NULL OR d.app = $2)
                       AND (d.day, d.app) < (s.day, s.app)
                     ORDER BY d.day DESC, d.app DESC LIMIT 1) n),
           recent AS (
               SELECT s.app, s.day FROM seen s
               WHERE s.day = (SELECT l.day FROM app_days l
                              WHERE l.tenant = $1 AND l.app = s.app AND l.reports > 0
                              ORDER BY l.day DESC LIMIT 1)
               LIMIT $7),
           page AS (
               SELECT r.app, r.day FROM recent r
               WHERE $3::date IS NULL OR (r.day, r.app) < ($3, $4::text)
               LIMIT $5)
           SELECT p.app AS "app!", f.versions AS "versions!", f.reports AS "reports!",
                  f.first_day AS "first_day!", p.day AS "last_day!"
           FROM page p CROSS JOIN LATERAL
                (SELECT count(DISTINCT r.version) AS versions, sum(r.reports)::bigint AS reports,
                        min(r.day) AS first_day
                 FROM (SELECT d.version, d.day, d.reports FROM app_days d
                       WHERE d.tenant = $1 AND d.app = p.app AND d.reports > 0
                       ORDER BY d.day DESC LIMIT $6) r) f
           ORDER BY p.day DESC, p.app DESC"#,
        tenant,
        only,
        after.map(|(day, _)| day),
        after.map(|(_, app)| app),
        i64::from(limit),
        MOST_ROWS,
        MOST_LISTED
    )
    .fetch_all(connection)
    .await?)
}

/// Rows of sessions, and of metrics, that [`measured`] looks at: the newest.
const MOST_MEASURED_ROWS: i64 = 5_000;
/// Apps that [`measured`] lists.
const MOST_MEASURED: i64 = 50;

/// Apps that sessions or metrics came from of late, by name; with `only` that app alone.
pub async fn measured(tx: &mut TenantTx, only: Option<&str>) -> Result<Vec<String>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT app AS "app!" FROM (
               (SELECT app FROM session_days WHERE tenant = $1 AND ($2::text IS NULL OR app = $2)
                ORDER BY day DESC, app DESC, version DESC LIMIT $3)
               UNION
               (SELECT app FROM metric_versions WHERE tenant = $1 AND ($2::text IS NULL OR app = $2)
                ORDER BY day DESC, app DESC, version DESC LIMIT $3)) m
           ORDER BY app LIMIT $4"#,
        tenant,
        only,
        MOST_MEASURED_ROWS,
        MOST_MEASURED
    )
    .fetch_all(connection)
    .await?)
}
