//! Groups that hit many sessions of a version.

use super::events::{AlertCause, GROUP_PAGE};
use super::frequent::{GROUPS_LIMIT, GroupLevel, SESSIONS_MIN, read_told};
use super::rules::DueRule;
use time::Duration;
use unslide_model::figures::{format_decimals, format_fraction};
use unslide_store::{GroupId, Result, TenantTx};

/// The beginning of the cause of a widespread group; the group's id, the version and the level follow.
const WIDESPREAD_GROUP: &str = "widespread:";
/// Days that are counted, with today.
const COUNTED_DAYS: i64 = 7;

/// Finds the groups that fulfil a rule in a version, and that it has no recent event for. What is merged counts for its target.
#[expect(clippy::cast_precision_loss, reason = "a count of reports or sessions")]
pub(super) async fn find_widespread(tx: &mut TenantTx, rule: &DueRule) -> Result<Vec<AlertCause>> {
    let told = read_told(tx, rule, WIDESPREAD_GROUP).await?;
    let (connection, tenant, now) = tx.parts();
    let since = now - Duration::days(COUNTED_DAYS);
    let rows = sqlx::query!(
        r#"SELECT t.id AS "id: GroupId", t.app, t.title, t.culprit, n.version AS "version!", n.reports AS "reports!",
                  s.sessions AS "sessions!"
           FROM (SELECT coalesce(g.merged_into, g.id) AS id, c.value AS version, sum(c.reports)::bigint AS reports
                 FROM groups g
                 JOIN LATERAL (SELECT value, reports FROM group_breakdown_counts
                               WHERE tenant = $1 AND group_id = g.id AND dimension = 'version' AND value <> ''
                                 AND day > ($3 AT TIME ZONE 'UTC')::date) c ON true
                 WHERE g.tenant = $1 AND ($2::text IS NULL OR g.app = $2) AND g.last_seen >= $3
                 GROUP BY 1, 2 HAVING sum(c.reports)::bigint >= $4) n
           JOIN groups t ON t.tenant = $1 AND t.id = n.id AND t.status IN ('open', 'regressed')
           JOIN (SELECT app, version, sum(sessions)::bigint AS sessions FROM session_days
                 WHERE tenant = $1 AND ($2::text IS NULL OR app = $2) AND day > ($3 AT TIME ZONE 'UTC')::date
                 GROUP BY app, version HAVING sum(sessions)::float8 >= $5) s ON s.app = t.app AND s.version = n.version
           WHERE 100 * n.reports::float8 >= $6::float8 * s.sessions
           ORDER BY n.reports::float8 / s.sessions DESC, t.id, n.version LIMIT $7"#,
        tenant,
        rule.app,
        since.max(rule.created_at - Duration::DAY),
        i64::from(rule.least_reports),
        SESSIONS_MIN,
        rule.threshold,
        GROUPS_LIMIT
    )
    .fetch_all(connection)
    .await?;
    let causes = rows.into_iter().filter_map(|row| {
        let share = (row.reports as f64 / row.sessions as f64).min(1.0);
        let level = GroupLevel::Share(1e6 * share);
        let is_told = told.iter().any(|one| one.when == row.version && one.covers(row.id, &level));
        (!is_told).then(|| AlertCause {
            cause: format!("{WIDESPREAD_GROUP}{}:{}:{}", row.id, row.version, level.format()),
            headline: format!(
                "{}: {} of the sessions of {} {}",
                row.title,
                format_fraction(share),
                row.app,
                row.version
            ),
            detail: format!(
                "{}{} reports in {} sessions of the last {COUNTED_DAYS} days; the rule asks for {} %.",
                if row.culprit.is_empty() { String::new() } else { format!("{}. ", row.culprit) },
                format_decimals(row.reports as f64, 0),
                format_decimals(row.sessions as f64, 0),
                rule.threshold
            ),
            path: format!("{GROUP_PAGE}{}", row.id),
            app: row.app,
            version: row.version,
        })
    });
    Ok(causes.collect())
}
