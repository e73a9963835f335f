//! Counts of reports by version and day.

use time::Date;
use unslide_store::{GroupId, Result, TenantTx};

/// The sentence for an app without sessions.
pub const NO_SESSIONS: &str = "The app sends no sessions, so its crashes have no rate: send one event for each session with POST /v1/sessions.";
/// Rows of versions and days that one list has, the newest first.
const DAYS_LIMIT: i64 = 50_000;
/// New bugs of a version that are counted, those with the most reports.
const NEW_GROUPS_LIMIT: i64 = 2_000;
/// The kinds of groups that are crashes.
const CRASH_KINDS: [&str; 4] = ["crash", "exception", "javascript", "stack_overflow"];

/// Reports of one version that arrived on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportDay {
    pub version: String,
    pub day: Date,
    pub reports: i64,
}

/// Lists the reports of a group and of those merged into it, from a day on.
pub async fn list_group_days(tx: &mut TenantTx, group: GroupId, from: Date) -> Result<Vec<ReportDay>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        ReportDay,
        r#"SELECT d.value AS "version!", d.day AS "day!", sum(d.reports)::bigint AS "reports!"
           FROM (SELECT $2::uuid AS id
                 UNION ALL SELECT m.id FROM groups m WHERE m.tenant = $1 AND m.merged_into = $2) g
           CROSS JOIN LATERAL (SELECT value, day, reports FROM group_breakdown_counts
                               WHERE tenant = $1 AND group_id = g.id AND dimension = 'version' AND day >= $3) d
           GROUP BY d.value, d.day ORDER BY d.day DESC, d.value DESC LIMIT $4"#,
        tenant,
        group as GroupId,
        from,
        DAYS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}

/// Lists the crashes of each version by bugs that are new in it, from a day on.
pub async fn list_new_crash_days(
    tx: &mut TenantTx,
    app: &str,
    versions: &[String],
    from: Date,
) -> Result<Vec<ReportDay>> {
    let kinds: Vec<String> = CRASH_KINDS.map(str::to_owned).to_vec();
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        ReportDay,
        r#"SELECT n.first_version AS "version!", d.day AS "day!", sum(d.reports)::bigint AS "reports!"
           FROM unnest($3::text[]) AS asked (version)
           CROSS JOIN LATERAL (
               SELECT id, first_version FROM groups
               WHERE tenant = $1 AND app = $2 AND first_version = asked.version AND kind = ANY ($4)
                 AND merged_into IS NULL AND reports > 0
               ORDER BY reports DESC, id DESC LIMIT $6) n
           CROSS JOIN LATERAL (
               SELECT n.id UNION ALL SELECT m.id FROM groups m WHERE m.tenant = $1 AND m.merged_into = n.id) g
           CROSS JOIN LATERAL (
               SELECT day, reports FROM group_breakdown_counts
               WHERE tenant = $1 AND group_id = g.id AND dimension = 'version' AND value = n.first_version AND day >= $5) d
           GROUP BY n.first_version, d.day ORDER BY d.day DESC, n.first_version DESC LIMIT $7"#,
        tenant,
        app,
        versions,
        &kinds,
        from,
        NEW_GROUPS_LIMIT,
        DAYS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}
