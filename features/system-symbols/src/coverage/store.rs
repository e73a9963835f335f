//! The statements about reports of builds and their system images.
//!
//! Both read the same number of the most recent reports, so that their cost does not grow with the period.

use super::MAX_REPORTS;
use time::OffsetDateTime;
use unslide_model::{DebugId, Owner, Quality};
use unslide_store::sql::from_row;
use unslide_store::{Result, TenantTx};

pub struct CoverageFilter<'f> {
    pub from: OffsetDateTime,
    pub app: Option<&'f str>,
}

/// The number of reports of one build.
pub struct ReportsOfBuild {
    pub os_name: Option<String>,
    pub os_version: Option<String>,
    pub os_build: Option<String>,
    pub reports: u64,
}

/// A system image of one build.
pub struct ImageOfBuild {
    pub os_name: Option<String>,
    pub os_version: Option<String>,
    pub os_build: Option<String>,
    pub debug_id: DebugId,
    pub reports: u64,
    /// Quality of the symbols that answer.
    pub quality: Quality,
}

/// Counts the most recent reports by build.
pub async fn count_reports(tx: &mut TenantTx, filter: &CoverageFilter<'_>) -> Result<Vec<ReportsOfBuild>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT os_name, os_version, os_build, count(*) AS "reports!"
           FROM (SELECT os_name, os_version, os_build FROM reports
                 WHERE tenant = $1 AND received_at >= $2 AND ($3::text IS NULL OR app = $3)
                 ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $4) AS r
           GROUP BY os_name, os_version, os_build"#,
        tenant,
        filter.from,
        filter.app,
        i64::from(MAX_REPORTS)
    )
    .fetch_all(connection)
    .await?;
    let builds = rows.into_iter().map(|row| ReportsOfBuild {
        os_name: row.os_name,
        os_version: row.os_version,
        os_build: row.os_build,
        reports: from_row(row.reports),
    });
    Ok(builds.collect())
}

/// Returns the system images of the most recent reports by build, with the quality of their symbols.
pub async fn list_images(tx: &mut TenantTx, filter: &CoverageFilter<'_>) -> Result<Vec<ImageOfBuild>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT i.os_name, i.os_version, i.os_build, i.debug_id AS "debug_id!", i.reports AS "reports!",
                  (SELECT coalesce(max(s.quality), 0::smallint) FROM symbol_slots s
                   WHERE s.tenant IN ($1, $5) AND s.debug_id = i.debug_id) AS "quality!"
           FROM (SELECT r.os_name, r.os_version, r.os_build, d.debug_id, count(*) AS reports
                 FROM (SELECT os_name, os_version, os_build, system_images FROM reports
                       WHERE tenant = $1 AND received_at >= $2 AND ($3::text IS NULL OR app = $3)
                       ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $4) AS r
                 CROSS JOIN LATERAL unnest(r.system_images) AS d (debug_id)
                 GROUP BY r.os_name, r.os_version, r.os_build, d.debug_id) AS i"#,
        tenant,
        filter.from,
        filter.app,
        i64::from(MAX_REPORTS),
        Owner::System.as_str()
    )
    .fetch_all(connection)
    .await?;
    let images = rows.into_iter().map(|row| ImageOfBuild {
        os_name: row.os_name,
        os_version: row.os_version,
        os_build: row.os_build,
        debug_id: DebugId::from_uuid(row.debug_id),
        reports: from_row(row.reports),
        quality: Quality::from_rank(row.quality).unwrap_or(Quality::None),
    });
    Ok(images.collect())
}
