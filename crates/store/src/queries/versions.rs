//! The versions of an app: their figures, and the symbols that are missing.

use super::day;
use super::missing::{self, WantedImage};
use crate::column::{JsonColumn, json_column};
use crate::{Result, TenantTx};
use serde::Serialize;
use std::collections::HashMap;
use time::Date;
use utoipa::ToSchema;

/// Versions of an app that the list shows: beyond these the least recently seen give way. Reports keep their
/// version, and are found by it.
pub const MOST_LISTED: i64 = 1_000;

/// Versions of an app that are all looked at for a page.
const MOST_WALKED: i64 = 500;

/// Reports, devices and symbolication of one version.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Version)]
pub struct VersionSummary {
    /// The version; empty for reports that name none.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// Number of reports. A sampled report counts with its weight, here and in the counts below, but not in
    /// `devices`.
    pub reports: i64,
    /// True if `reports` is an estimate, because some of them were sampled.
    pub estimated: bool,
    /// Number of reports of crashes that ended the app.
    pub crashes: i64,
    /// Number of different devices in its reports.
    pub devices: i64,
    /// The share of frames that symbols answered, 0 to 1; absent if the reports have no frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_symbolicated: Option<f64>,
    /// Number of frames in all its reports.
    pub frames: i64,
    /// Number of frames of the app's own code in all its reports.
    pub own_frames: i64,
    /// The share of these frames that symbols answered, 0 to 1; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_own_symbolicated: Option<f64>,
    /// Reports in which every frame has its answer.
    pub complete: i64,
    /// Reports in which some frames have theirs.
    pub partial: i64,
    /// Reports in which none has.
    pub none: i64,
    /// The day of the first report (UTC).
    #[serde(with = "day")]
    pub first_day: Date,
    /// The day of the last report (UTC).
    #[serde(with = "day")]
    pub last_day: Date,
    /// The app's own images that symbols are missing for, the most wanted first, at most 100.
    #[schema(max_items = 100)]
    pub missing: Vec<WantedImage>,
}

json_column!(Vec<WantedImage>);

/// Lists the versions of an app, at most [`MOST_LISTED`], that of the newest report first, from the one after
/// `after` (its last day and its name) on; empty for an app without reports.
pub async fn list_versions(
    tx: &mut TenantTx,
    app: &str,
    after: Option<(Date, &str)>,
    limit: u32,
) -> Result<Vec<VersionSummary>> {
    let app = app.replace('\0', "");
    let mut versions = list_version_rows(tx, &app, after, limit).await?;
    let names: Vec<String> = versions.iter().map(|row| row.version.clone()).collect();
    let mut wanted: HashMap<String, Vec<WantedImage>> = HashMap::new();
    for (version, image) in missing::list_for_versions(tx, &app, &names).await? {
        wanted.entry(version).or_default().push(image);
    }
    for row in &mut versions {
        row.missing = wanted.remove(&row.version).unwrap_or_default();
    }
    Ok(versions)
}

/// Returns one version of an app, without the images that symbols are missing for. `None` if it has no reports.
pub async fn find_version(tx: &mut TenantTx, app: &str, version: &str) -> Result<Option<VersionSummary>> {
    let (app, version) = (app.replace('\0', ""), version.replace('\0', ""));
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        VersionSummary,
        r#"SELECT $3::text AS "version!", max(d.day) FILTER (WHERE d.reports > 0) AS "last_day!",
                  min(d.day) FILTER (WHERE d.reports > 0) AS "first_day!", sum(d.reports)::bigint AS "reports!",
                  sum(d.extrapolated) > 0 AS "estimated!", sum(d.fatal)::bigint AS "crashes!",
                  sum(d.devices)::bigint AS "devices!", sum(d.frames_total)::bigint AS "frames!",
                  sum(d.frames_symbolicated)::float8 / nullif(sum(d.frames_total), 0)::float8 AS share_symbolicated,
                  sum(d.frames_own)::bigint AS "own_frames!",
                  sum(d.frames_own_symbolicated)::float8 / nullif(sum(d.frames_own), 0)::float8 AS share_own_symbolicated,
                  sum(d.complete)::bigint AS "complete!", sum(d.partial)::bigint AS "partial!", sum(d.none)::bigint AS "none!",
                  '[]'::jsonb AS "missing!: JsonColumn<Vec<WantedImage>>"
           FROM app_days d WHERE d.tenant = $1 AND d.app = $2 AND d.version = $3 HAVING sum(d.reports) > 0"#,
        tenant,
        app,
        version
    )
    .fetch_optional(connection)
    .await?)
}

/// Does the same without the images that symbols are missing for.
async fn list_version_rows(
    tx: &mut TenantTx,
    app: &str,
    after: Option<(Date, &str)>,
    limit: u32,
) -> Result<Vec<VersionSummary>> {
    let (after_day, after_version) = after.unzip();
    let (connection, tenant, _) = tx.parts();
    // From version to version, one index look-up each: the rows of a version's other days are not read. If
    // there are very many versions, in the order of days, back until the page is full.
    Ok(sqlx::query_as!(
        VersionSummary,
        r#"WITH RECURSIVE walked AS (
               (SELECT version, day FROM app_days
                WHERE tenant = $1 AND app = $2 AND reports > 0 ORDER BY version DESC, day DESC LIMIT 1)
               UNION ALL
               SELECT n.version, n.day FROM walked w CROSS JOIN LATERAL
                    (SELECT d.version, d.day FROM app_days d
                     WHERE d.tenant = $1 AND d.app = $2 AND d.reports > 0 AND d.version < w.version
                     ORDER BY d.version DESC, d.day DESC LIMIT 1) n),
           every AS MATERIALIZED (SELECT w.version, w.day FROM walked w LIMIT $7),
           newest AS (
               SELECT d.version, d.day FROM app_days d
               WHERE d.tenant = $1 AND d.app = $2 AND d.reports > 0
                 AND d.day = (SELECT l.day FROM app_days l
                              WHERE l.tenant = $1 AND l.app = $2 AND l.version = d.version AND l.reports > 0
                              ORDER BY l.day DESC LIMIT 1)
               ORDER BY d.day DESC, d.version DESC LIMIT $6),
           page AS (
               SELECT f.version, f.day FROM (
                   SELECT e.version, e.day FROM every e
                   WHERE (SELECT count(*) FROM every) < $7 AND ($3::date IS NULL OR (e.day, e.version) < ($3, $4::text))
                   UNION ALL
                   (SELECT n.version, n.day FROM newest n
                    WHERE (SELECT count(*) FROM every) = $7 AND ($3::date IS NULL OR (n.day, n.version) < ($3, $4::text))
                    LIMIT $5)) f
               ORDER BY f.day DESC, f.version DESC LIMIT $5)
           SELECT p.version AS "version!", p.day AS "last_day!", f.first_day AS "first_day!", f.reports AS "reports!",
                  f.estimated AS "estimated!", f.crashes AS "crashes!", f.devices AS "devices!", f.frames AS "frames!",
                  f.symbolicated::float8 / nullif(f.frames, 0)::float8 AS share_symbolicated,
                  f.own_frames AS "own_frames!",
                  f.own_symbolicated::float8 / nullif(f.own_frames, 0)::float8 AS share_own_symbolicated, f.complete AS "complete!",
                  f.partial AS "partial!", f.none AS "none!", '[]'::jsonb AS "missing!: JsonColumn<Vec<WantedImage>>"
           FROM page p CROSS JOIN LATERAL
                (SELECT sum(d.reports)::bigint AS reports, sum(d.extrapolated) > 0 AS estimated,
                        sum(d.fatal)::bigint AS crashes, sum(d.devices)::bigint AS devices,
                        sum(d.frames_total)::bigint AS frames, sum(d.frames_symbolicated)::bigint AS symbolicated,
                        sum(d.frames_own)::bigint AS own_frames, sum(d.frames_own_symbolicated)::bigint AS own_symbolicated,
                        sum(d.complete)::bigint AS complete, sum(d.partial)::bigint AS partial, sum(d.none)::bigint AS none,
                        min(d.day) FILTER (WHERE d.reports > 0) AS first_day
                 FROM app_days d WHERE d.tenant = $1 AND d.app = $2 AND d.version = p.version) f
           ORDER BY p.day DESC, p.version DESC"#,
        tenant,
        app,
        after_day,
        after_version,
        i64::from(limit),
        MOST_LISTED,
        MOST_WALKED
    )
    .fetch_all(connection)
    .await?)
}
