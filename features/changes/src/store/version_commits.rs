//! The commits of the builds of versions.

use sqlx::FromRow;
use unslide_store::report_rows::{ReportSample, SampleScope, read_samples};
use unslide_store::{Result, TenantTx};

/// The newest reports of a version that are searched for builds.
const REPORTS_LIMIT: i64 = 4;
/// Commits of two versions that are read.
const COMMITS_LIMIT: i64 = 40;
/// The tables of the newest reports of the versions.
const TABLES: [&str; 2] = ["of_first", "of_second"];

/// A commit of builds that reports of a version name.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct VersionCommit {
    /// The place of the version in the list of the request, from 1.
    pub place: i64,
    #[sqlx(rename = "commit_sha")]
    pub commit: String,
    pub repository: Option<String>,
    /// Images of the reports that were built of it.
    pub images: i64,
}

/// Lists the commits of the builds that the newest reports of two versions name, those of most images first.
pub async fn list_version_commits(
    tx: &mut TenantTx,
    app: &str,
    versions: &[String; 2],
) -> Result<Vec<VersionCommit>> {
    let tenant = tx.parts().1.to_owned();
    let samples = TABLES.into_iter().zip(versions).map(|(name, version)| {
        let scope = SampleScope::Version { app, version };
        ReportSample { name, ..ReportSample::new(scope, "r.version", REPORTS_LIMIT) }
    });
    read_samples(tx, samples.collect::<Vec<_>>(), &|query| {
        // The waits of a report name the app's own images.
        query.push(format!(
            "SELECT v.place, c.commit_sha, c.repository, count(*) AS images
             FROM (SELECT 1::bigint AS place, n.* FROM {} n UNION ALL SELECT 2::bigint, n.* FROM {} n) v
             JOIN waits w ON w.received_at = v.received_at AND w.report_id = v.report_id AND w.variant = v.variant AND w.tenant = ",
            TABLES[0], TABLES[1]
        ));
        query.push_bind(tenant.clone()).push(" JOIN build_commits c ON c.debug_id = w.debug_id AND c.tenant = ");
        query.push_bind(tenant.clone()).push(format!(
            " GROUP BY v.place, c.commit_sha, c.repository
             ORDER BY count(*) DESC, c.commit_sha, c.repository LIMIT {COMMITS_LIMIT}"
        ));
    })
    .await
}
