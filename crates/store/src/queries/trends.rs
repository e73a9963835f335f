//! Reports over time, as charts show them.

use crate::{Result, TenantTx, Uuid};
use time::Date;

/// Rows of the period, one for each app, version and day, that a chart is made of: those of its most recent days,
/// where somebody sends reports of ever new versions.
const MOST_ROWS: i64 = 50_000;

/// Recent rows that the names of versions are taken from.
const RECENT_ROWS: i64 = 5_000;

/// Reports of a version that arrived on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionDay {
    /// The day of arrival (UTC).
    pub day: Date,
    /// Bundle identifier; empty where unknown.
    pub app: String,
    /// The version; `None` for all versions that are not among the most frequent.
    pub version: Option<String>,
    /// Reports.
    pub reports: i64,
}

/// Reports by day and version from a day on: of the `most` versions with the most reports by name, of all others
/// together; with `app` and `version` of these alone.
pub async fn by_version(
    tx: &mut TenantTx,
    (app, version): (Option<&str>, Option<&str>),
    from: Date,
    most: u32,
) -> Result<Vec<VersionDay>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        VersionDay,
        r#"WITH rows AS MATERIALIZED (
               SELECT d.day, d.app, d.version, d.reports FROM app_days d
               WHERE d.tenant = $1 AND d.day >= $2 AND d.reports > 0
                 AND ($3::text IS NULL OR d.app = $3) AND ($4::text IS NULL OR d.version = $4)
               ORDER BY d.day DESC, d.app DESC LIMIT $6),
           top AS (
               SELECT r.app, r.version FROM rows r GROUP BY r.app, r.version
               ORDER BY sum(r.reports) DESC, r.app, r.version LIMIT $5)
           SELECT r.day AS "day!", coalesce(t.app, '') AS "app!", t.version AS "version?", sum(r.reports)::bigint AS "reports!"
           FROM rows r LEFT JOIN top t ON t.app = r.app AND t.version = r.version
           GROUP BY r.day, t.app, t.version ORDER BY r.day, t.app, t.version"#,
        tenant,
        from,
        app,
        version,
        i64::from(most),
        MOST_ROWS
    )
    .fetch_all(connection)
    .await?)
}

/// What happened in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodTotals {
    /// Reports.
    pub reports: i64,
    /// Frames in these.
    pub frames: i64,
    /// Frames that symbols answered.
    pub symbolicated: i64,
}

/// The totals of a period: days from the first up to the second, which is not part of it.
pub async fn totals(
    tx: &mut TenantTx,
    (app, version): (Option<&str>, Option<&str>),
    (from, to): (Date, Date),
) -> Result<PeriodTotals> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        PeriodTotals,
        r#"SELECT coalesce(sum(d.reports), 0)::bigint AS "reports!", coalesce(sum(d.frames_total), 0)::bigint AS "frames!",
                  coalesce(sum(d.frames_symbolicated), 0)::bigint AS "symbolicated!"
           FROM (SELECT * FROM app_days
                 WHERE tenant = $1 AND day >= $2 AND day < $3
                   AND ($4::text IS NULL OR app = $4) AND ($5::text IS NULL OR version = $5)
                 ORDER BY day DESC, app DESC LIMIT $6) d"#,
        tenant,
        from,
        to,
        app,
        version,
        MOST_ROWS
    )
    .fetch_one(connection)
    .await?)
}

/// Reports of a group that arrived on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTrend {
    /// The group.
    pub group: Uuid,
    /// The day of arrival (UTC).
    pub day: Date,
    /// Reports.
    pub reports: i64,
}

/// Reports of some groups, and of those merged into them, by day, from a day on.
pub async fn of_groups(tx: &mut TenantTx, groups: &[Uuid], from: Date) -> Result<Vec<GroupTrend>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        GroupTrend,
        r#"SELECT coalesce(g.merged_into, g.id) AS "group!", d.day, sum(d.reports)::bigint AS "reports!"
           FROM groups g JOIN group_days d ON d.tenant = g.tenant AND d.group_id = g.id
           WHERE g.tenant = $1 AND (g.id = ANY ($2) OR g.merged_into = ANY ($2)) AND d.day >= $3
           GROUP BY 1, 2 ORDER BY 1, 2"#,
        tenant,
        groups,
        from
    )
    .fetch_all(connection)
    .await?)
}

/// The versions that reports came from lately, the newest report first; with `app` those of this app.
pub async fn recent_versions(tx: &mut TenantTx, app: Option<&str>, limit: u32) -> Result<Vec<String>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        "SELECT r.version FROM (
             SELECT version, day FROM app_days WHERE tenant = $1 AND reports > 0 AND ($2::text IS NULL OR app = $2)
             ORDER BY day DESC, app DESC LIMIT $4) r
         GROUP BY r.version ORDER BY max(r.day) DESC, r.version DESC LIMIT $3",
        tenant,
        app,
        i64::from(limit),
        RECENT_ROWS
    )
    .fetch_all(connection)
    .await?)
}

/// The number of groups whose first report arrived at this time or later, at most `limit`.
pub async fn new_groups(
    tx: &mut TenantTx,
    app: Option<&str>,
    from: time::OffsetDateTime,
    limit: u32,
) -> Result<i64> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM groups WHERE tenant = $1 AND first_seen >= $2 AND ($3::text IS NULL OR app = $3)
                 AND merged_into IS NULL AND reports > 0 LIMIT $4) g"#,
        tenant,
        from,
        app,
        i64::from(limit)
    )
    .fetch_one(connection)
    .await?)
}
