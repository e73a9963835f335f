//! The commits of the builds of versions.

use unslide_store::{Result, TenantTx};

/// The newest reports of a version that are searched for builds.
const REPORTS_LIMIT: i64 = 4;
/// Commits of two versions that are read.
const COMMITS_LIMIT: i64 = 40;

/// A commit of builds that reports of a version name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionCommit {
    /// The place of the version in the list of the request, from 1.
    pub place: i64,
    pub commit: String,
    pub repository: Option<String>,
    /// Images of the reports that were built of it.
    pub images: i64,
}

/// Lists the commits of the builds that the newest reports of versions name, those of most images first.
pub async fn list_version_commits(
    tx: &mut TenantTx,
    app: &str,
    versions: &[String],
) -> Result<Vec<VersionCommit>> {
    let (connection, tenant, _) = tx.parts();
    // The waits of a report name the app's own images.
    Ok(sqlx::query_as!(
        VersionCommit,
        r#"SELECT v.place AS "place!", c.commit_sha AS commit, c.repository, count(*) AS "images!"
           FROM unnest($3::text[]) WITH ORDINALITY AS v (version, place)
           CROSS JOIN LATERAL (
               SELECT r.received_at, r.report_id, r.variant FROM reports r
               WHERE r.tenant = $1 AND r.app = $2 AND r.version = v.version
               ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $4) n
           JOIN waits w ON w.tenant = $1 AND w.received_at = n.received_at AND w.report_id = n.report_id AND w.variant = n.variant
           JOIN build_commits c ON c.tenant = $1 AND c.debug_id = w.debug_id
           GROUP BY v.place, c.commit_sha, c.repository
           ORDER BY count(*) DESC, c.commit_sha, c.repository LIMIT $5"#,
        tenant,
        app,
        versions,
        REPORTS_LIMIT,
        COMMITS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}
