//! The statements about reports of builds and their system images.
//!
//! Both read the same number of the most recent reports, so that their cost does not grow with the period.

use super::MAX_REPORTS;
use sqlx::FromRow;
use time::OffsetDateTime;
use unslide_model::{DebugId, Owner, Quality};
use unslide_store::report_rows::{ReportSample, SampleScope, read_samples};
use unslide_store::sql::from_row;
use unslide_store::{Result, TenantTx, Uuid};

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

/// A count as its row has it.
#[derive(FromRow)]
struct CountRow {
    os_name: Option<String>,
    os_version: Option<String>,
    os_build: Option<String>,
    reports: i64,
}

/// An image as its row has it.
#[derive(FromRow)]
struct ImageRow {
    #[sqlx(flatten)]
    build: CountRow,
    debug_id: Uuid,
    quality: i16,
}

fn sample_reports<'f>(filter: &CoverageFilter<'f>, columns: &'static str) -> ReportSample<'f> {
    let scope = filter.app.map_or(SampleScope::Tenant, SampleScope::App);
    ReportSample { from: Some(filter.from), ..ReportSample::new(scope, columns, i64::from(MAX_REPORTS)) }
}

/// Counts the most recent reports by build.
pub async fn count_reports(tx: &mut TenantTx, filter: &CoverageFilter<'_>) -> Result<Vec<ReportsOfBuild>> {
    let sample = sample_reports(filter, "r.os_name, r.os_version, r.os_build");
    let rows: Vec<CountRow> = read_samples(tx, [sample], &|query| {
        query.push(
            "SELECT os_name, os_version, os_build, count(*) AS reports FROM newest GROUP BY os_name, os_version, os_build",
        );
    })
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
    let tenant = tx.parts().1.to_owned();
    let sample = sample_reports(filter, "r.os_name, r.os_version, r.os_build, r.system_images");
    let rows: Vec<ImageRow> = read_samples(tx, [sample], &|query| {
        query.push(
            "SELECT i.os_name, i.os_version, i.os_build, i.debug_id, i.reports,
                    (SELECT coalesce(max(s.quality), 0::smallint) FROM symbol_slots s WHERE s.tenant IN (",
        );
        query.push_bind(tenant.clone()).push(", ").push_bind(Owner::System.as_str());
        query.push(
            ") AND s.debug_id = i.debug_id) AS quality
             FROM (SELECT r.os_name, r.os_version, r.os_build, d.debug_id, count(*) AS reports
                   FROM newest r CROSS JOIN LATERAL unnest(r.system_images) AS d (debug_id)
                   GROUP BY r.os_name, r.os_version, r.os_build, d.debug_id) AS i",
        );
    })
    .await?;
    let images = rows.into_iter().map(|ImageRow { build, debug_id, quality }| ImageOfBuild {
        os_name: build.os_name,
        os_version: build.os_version,
        os_build: build.os_build,
        debug_id: DebugId::from_uuid(debug_id),
        reports: from_row(build.reports),
        quality: Quality::from_rank(quality).unwrap_or(Quality::None),
    });
    Ok(images.collect())
}
