//! How long the app hung, or was sampled, in the reports of a group.

use crate::{GroupId, Result, TenantTx};

/// Reports that are looked at, the newest first.
pub const MOST_REPORTS: i64 = 1_000;
/// Versions that are answered, that of the newest report first.
const MOST_VERSIONS: i64 = 20;

/// The reports of one version that say how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionDurations {
    /// The version; empty for reports that name none.
    pub version: String,
    /// How many reports.
    pub reports: i64,
    /// The median in milliseconds; of an even number the mean of both in the middle.
    pub median_ms: i64,
    /// The longest one in milliseconds.
    pub longest_ms: i64,
}

/// Returns the durations of the newest reports of a group, by version.
pub async fn group_durations(tx: &mut TenantTx, group: GroupId) -> Result<Vec<VersionDurations>> {
    let groups = crate::queries::groups::with_merged(tx, group).await?;
    // The newest of each group, by the index, and the newest of these.
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        VersionDurations,
        r#"WITH newest AS (
               SELECT n.version, n.received_at, n.duration
               FROM unnest($2::uuid[]) AS g (id) CROSS JOIN LATERAL (
                   SELECT r.version, r.received_at, r.report_id, r.variant, r.summary -> 'duration_ms' AS duration
                   FROM reports r WHERE r.tenant = $1 AND r.group_id = g.id
                   ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $3) n
               ORDER BY n.received_at DESC, n.report_id DESC, n.variant DESC LIMIT $3)
           SELECT version AS "version!", count(*) AS "reports!",
                  round((percentile_cont(0.5) WITHIN GROUP (ORDER BY duration::bigint))::numeric)::bigint AS "median_ms!",
                  max(duration::bigint) AS "longest_ms!"
           FROM newest WHERE jsonb_typeof(duration) = 'number'
           GROUP BY version ORDER BY max(received_at) DESC, version LIMIT $4"#,
        tenant,
        &groups as &[GroupId],
        MOST_REPORTS,
        MOST_VERSIONS
    )
    .fetch_all(connection)
    .await?;
    Ok(rows)
}
