//! Reports over time, as charts show them.

use crate::{GroupId, Result, TenantTx};
use serde::Serialize;
use time::{Date, Duration, OffsetDateTime};
use utoipa::ToSchema;

/// Rows of the period, one for each app, version and day, that a chart is made of: those of its most recent
/// days, if a client sends reports of ever new versions.
const CHART_ROWS_LIMIT: i64 = 50_000;

/// Recent rows that the names of versions are taken from.
const RECENT_ROWS: i64 = 5_000;

/// Reports of a version that arrived on a day or in an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionCount {
    /// When the day (UTC) or hour began.
    pub at: OffsetDateTime,
    /// Bundle identifier; empty if unknown.
    pub app: String,
    /// The version; `None` for all versions that are not among the most frequent.
    pub version: Option<String>,
    /// The number of crashes or reports.
    pub count: i64,
}

/// The step of a period's rows. Hours are kept for 14 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrendStep {
    /// Days (UTC).
    Day,
    /// Hours.
    Hour,
}

impl TrendStep {
    /// Returns the step as a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TrendStep::Day => "day",
            TrendStep::Hour => "hour",
        }
    }

    /// Returns how long it is.
    #[must_use]
    pub fn length(self) -> Duration {
        match self {
            TrendStep::Day => Duration::DAY,
            TrendStep::Hour => Duration::HOUR,
        }
    }
}

/// Restricts figures to one app, or to one version.
#[derive(Clone, Copy, Debug, Default)]
pub struct VersionFilter<'v> {
    /// All apps if `None`.
    pub app: Option<&'v str>,
    /// All versions if `None`.
    pub version: Option<&'v str>,
}

/// Counts crashes by version and by day or hour, beginning with the day or hour of `from`. Names the `most`
/// versions with the most crashes, and adds up the others.
pub async fn by_version(
    tx: &mut TenantTx,
    filter: VersionFilter<'_>,
    step: TrendStep,
    from: OffsetDateTime,
    most: u32,
) -> Result<Vec<VersionCount>> {
    let VersionFilter { app, version } = filter;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        VersionCount,
        r#"WITH rows AS MATERIALIZED (
               (SELECT d.day::timestamp AT TIME ZONE 'UTC' AS at, d.app, d.version, d.fatal FROM app_days d
                WHERE NOT $7 AND d.tenant = $1 AND d.day >= ($2::timestamptz AT TIME ZONE 'UTC')::date AND d.fatal > 0
                  AND ($3::text IS NULL OR d.app = $3) AND ($4::text IS NULL OR d.version = $4)
                ORDER BY d.day DESC, d.app DESC LIMIT $6)
               UNION ALL
               (SELECT h.hour, h.app, h.version, h.fatal FROM app_hours h
                WHERE $7 AND h.tenant = $1 AND h.hour >= $2 AND h.fatal > 0
                  AND ($3::text IS NULL OR h.app = $3) AND ($4::text IS NULL OR h.version = $4)
                ORDER BY h.hour DESC LIMIT $6)),
           top AS (
               SELECT r.app, r.version FROM rows r GROUP BY r.app, r.version
               ORDER BY sum(r.fatal) DESC, r.app, r.version LIMIT $5)
           SELECT r.at AS "at!", coalesce(t.app, '') AS "app!", t.version AS "version?", sum(r.fatal)::bigint AS "count!"
           FROM rows r LEFT JOIN top t ON t.app = r.app AND t.version = r.version
           GROUP BY r.at, t.app, t.version ORDER BY r.at, t.app, t.version"#,
        tenant,
        from,
        app,
        version,
        i64::from(most),
        CHART_ROWS_LIMIT,
        step == TrendStep::Hour
    )
    .fetch_all(connection)
    .await?)
}

/// The totals of a period. Devices and frames are counted by day only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodTotals {
    /// Reports.
    pub reports: i64,
    /// True if `reports` is an estimate: some of them were sampled. Not known of hours.
    pub estimated: bool,
    /// Those that the app did not survive.
    pub crashes: i64,
    /// Devices that a version had its first report of: one that two versions have counts for both.
    pub devices: i64,
    /// Frames of the app's own code in the reports.
    pub frames: i64,
    /// Frames that symbols answered.
    pub symbolicated: i64,
}

/// Returns the totals of a period: from the beginning of a day or hour up to that of another, which is not
/// part of it.
pub async fn read_totals(
    tx: &mut TenantTx,
    filter: VersionFilter<'_>,
    step: TrendStep,
    from: OffsetDateTime,
    to: OffsetDateTime,
) -> Result<PeriodTotals> {
    let VersionFilter { app, version } = filter;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        PeriodTotals,
        r#"SELECT coalesce(sum(r.reports), 0)::bigint AS "reports!",
                  coalesce(sum(r.extrapolated), 0) > 0 AS "estimated!", coalesce(sum(r.fatal), 0)::bigint AS "crashes!",
                  coalesce(sum(r.devices), 0)::bigint AS "devices!",
                  coalesce(sum(r.frames_own), 0)::bigint AS "frames!",
                  coalesce(sum(r.frames_own_symbolicated), 0)::bigint AS "symbolicated!"
           FROM ((SELECT reports, extrapolated, fatal, devices, frames_own, frames_own_symbolicated FROM app_days
                  WHERE NOT $7 AND tenant = $1 AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date
                    AND day < ($3::timestamptz AT TIME ZONE 'UTC')::date
                    AND ($4::text IS NULL OR app = $4) AND ($5::text IS NULL OR version = $5)
                  ORDER BY day DESC, app DESC LIMIT $6)
                 UNION ALL
                 (SELECT reports, 0, fatal, 0, 0, 0 FROM app_hours
                  WHERE $7 AND tenant = $1 AND hour >= $2 AND hour < $3
                    AND ($4::text IS NULL OR app = $4) AND ($5::text IS NULL OR version = $5)
                  ORDER BY hour DESC LIMIT $6)) r"#,
        tenant,
        from,
        to,
        app,
        version,
        CHART_ROWS_LIMIT,
        step == TrendStep::Hour
    )
    .fetch_one(connection)
    .await?)
}

/// Reports of a group that arrived on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTrend {
    /// The group.
    pub group: GroupId,
    /// The day of arrival (UTC).
    pub day: Date,
    /// Reports.
    pub reports: i64,
}

/// Reads the reports of some groups, and of those merged into them, by day, from a day on; with a version, of
/// it alone.
pub async fn read_group_trends(
    tx: &mut TenantTx,
    groups: &[GroupId],
    version: Option<&str>,
    from: Date,
) -> Result<Vec<GroupTrend>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        GroupTrend,
        r#"SELECT coalesce(g.merged_into, g.id) AS "group!: GroupId", d.day AS "day!", sum(d.reports)::bigint AS "reports!"
           FROM groups g CROSS JOIN LATERAL (
               SELECT day, reports FROM group_day_counts
               WHERE $4::text IS NULL AND tenant = $1 AND group_id = g.id AND day >= $3
               UNION ALL
               SELECT day, reports FROM group_breakdown_counts
               WHERE tenant = $1 AND group_id = g.id AND dimension = 'version' AND value = $4 AND day >= $3) d
           WHERE g.tenant = $1 AND (g.id = ANY ($2) OR g.merged_into = ANY ($2))
           GROUP BY 1, 2 ORDER BY 1, 2"#,
        tenant,
        groups as &[GroupId],
        from,
        version.map(|version| version.replace('\0', ""))
    )
    .fetch_all(connection)
    .await?)
}

/// Reports of a group that arrived in an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupHour {
    /// When the hour began (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub hour: OffsetDateTime,
    /// Reports that arrived in it.
    pub reports: i64,
}

/// Reads the reports of a group, and of those merged into it, by hour, from an hour on, the newest first. Hours are kept for 14
/// days, and have no version.
pub async fn read_group_hours(
    tx: &mut TenantTx,
    group: GroupId,
    from: OffsetDateTime,
) -> Result<Vec<GroupHour>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        GroupHour,
        r#"SELECT h.hour AS "hour!", sum(h.reports)::bigint AS "reports!"
           FROM groups g CROSS JOIN LATERAL (
               SELECT hour, reports FROM group_hour_counts
               WHERE tenant = $1 AND group_id = g.id AND hour >= $3) h
           WHERE g.tenant = $1 AND (g.id = $2 OR g.merged_into = $2)
           GROUP BY h.hour ORDER BY h.hour DESC"#,
        tenant,
        group as GroupId,
        from
    )
    .fetch_all(connection)
    .await?)
}

/// Counts the reports of a group, and of those merged into it, by version and day, from a day on; with a version, of it alone.
/// Names the `most` versions with the most reports, and adds up the others.
pub async fn read_group_versions(
    tx: &mut TenantTx,
    group: GroupId,
    version: Option<&str>,
    from: Date,
    most: u32,
) -> Result<Vec<VersionCount>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        VersionCount,
        r#"WITH rows AS MATERIALIZED (
               SELECT g.app, b.value AS version, b.day, sum(b.reports) AS reports
               FROM groups g CROSS JOIN LATERAL (
                   SELECT value, day, reports FROM group_breakdown_counts
                   WHERE tenant = $1 AND group_id = g.id AND dimension = 'version' AND day >= $3
                     AND ($4::text IS NULL OR value = $4)) b
               WHERE g.tenant = $1 AND (g.id = $2 OR g.merged_into = $2)
               GROUP BY g.app, b.value, b.day),
           top AS (
               SELECT r.version FROM rows r GROUP BY r.version ORDER BY sum(r.reports) DESC, r.version LIMIT $5)
           SELECT r.day::timestamp AT TIME ZONE 'UTC' AS "at!", r.app AS "app!", t.version AS "version?",
                  sum(r.reports)::bigint AS "count!"
           FROM rows r LEFT JOIN top t ON t.version = r.version
           GROUP BY r.day, r.app, t.version ORDER BY r.day, t.version"#,
        tenant,
        group as GroupId,
        from,
        version.map(|version| version.replace('\0', "")),
        i64::from(most)
    )
    .fetch_all(connection)
    .await?)
}

/// Returns the versions that reports came from lately, the newest report first; with `app` those of this app.
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

/// A version and the day of its first report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDay {
    /// Bundle identifier; empty if unknown.
    pub app: String,
    /// The version.
    pub version: String,
    /// The day (UTC).
    pub day: Date,
}

/// Returns the versions whose first report arrived on this day or later, at most `limit`, the newest first.
pub async fn first_days(
    tx: &mut TenantTx,
    app: Option<&str>,
    from: Date,
    limit: u32,
) -> Result<Vec<FirstDay>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        FirstDay,
        r#"SELECT d.app AS "app!", d.version AS "version!", min(d.day) AS "day!"
           FROM (SELECT app, version, day FROM app_days
                 WHERE tenant = $1 AND day >= $2 AND version <> '' AND reports > 0 AND ($3::text IS NULL OR app = $3)
                 ORDER BY day DESC, app DESC LIMIT $4) d
           GROUP BY d.app, d.version
           HAVING NOT EXISTS (SELECT FROM app_days e WHERE e.tenant = $1 AND e.app = d.app AND e.version = d.version
                                AND e.day < $2 AND e.reports > 0)
           ORDER BY 3 DESC, d.app, d.version LIMIT $5"#,
        tenant,
        from,
        app,
        CHART_ROWS_LIMIT,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Counts the groups that began at this time or later, with their first report, at most `limit`; with a
/// version, those that began or came back in it.
pub async fn new_groups(
    tx: &mut TenantTx,
    filter: VersionFilter<'_>,
    from: OffsetDateTime,
    limit: u32,
) -> Result<i64> {
    let VersionFilter { app, version } = filter;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM groups WHERE tenant = $1 AND first_seen >= $2 AND ($3::text IS NULL OR app = $3)
                 AND ($5::text IS NULL OR first_version = $5 OR regressed_in = $5) AND merged_into IS NULL AND reports > 0 LIMIT $4) g"#,
        tenant,
        from,
        app,
        i64::from(limit),
        version
    )
    .fetch_one(connection)
    .await?)
}
