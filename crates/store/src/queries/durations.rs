//! How long the app hung, or was sampled, in the reports of a group.

use crate::report_rows::{GroupRows, read_group_sample};
use crate::{GroupId, Result, TenantTx};
use sqlx::FromRow;

/// Reports that are looked at, the newest first.
pub const MOST_REPORTS: i64 = 1_000;
/// Versions that are answered, that of the newest report first.
const MOST_VERSIONS: i64 = 20;

/// The reports of one version that say how long it took.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
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
    let groups = GroupRows::find_for_group(tx, group).await?;
    let columns = "r.version, r.summary -> 'duration_ms' AS duration";
    read_group_sample(tx, &groups, columns, MOST_REPORTS, &|query| {
        query.push(format!(
            "SELECT version, count(*) AS reports,
                    round((percentile_cont(0.5) WITHIN GROUP (ORDER BY duration::bigint))::numeric)::bigint AS median_ms,
                    max(duration::bigint) AS longest_ms
             FROM newest WHERE jsonb_typeof(duration) = 'number'
             GROUP BY version ORDER BY max(received_at) DESC, version LIMIT {MOST_VERSIONS}"
        ));
    })
    .await
}
