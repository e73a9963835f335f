//! Growing groups: those with more reports than before.

use super::{self as groups, GroupFilter, GroupGrowth, GroupOrder, ListedGroup};
use crate::{Result, TenantTx, Uuid};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use time::{Date, Duration, OffsetDateTime, Time};

/// Rows of the period, one for each group, version and day, that the busiest groups are found in: those of its most
/// recent days.
const MOST_ROWS: i64 = 30_000;
/// The busiest groups, of which [`list`] finds those that grow.
const MOST_GROUPS: u32 = 200;

/// The groups that match and have more reports in a period than in the one before it, the largest growth first.
/// The period is from the first day until now. Today is not over: of the last day of the period before, the
/// same share counts. With a version, its reports alone count. Only the 200 groups of the app and version with
/// the most reports of late are looked at.
pub async fn list(
    tx: &mut TenantTx,
    filter: &GroupFilter,
    first: Date,
    now: OffsetDateTime,
) -> Result<Vec<ListedGroup>> {
    let growing = growing(tx, (filter.app.as_deref(), filter.version.as_deref()), first, now).await?;
    let among = Some(growing.keys().copied().collect());
    let filter = GroupFilter { among, version: None, ..filter.clone() };
    let mut found = groups::list(tx, &filter, GroupOrder::Reports, None, MOST_GROUPS).await?;
    for group in &mut found {
        group.growth = growing.get(&group.id).copied();
    }
    let more = |growth: GroupGrowth| growth.reports - growth.reports_before;
    found.sort_by_key(|group| (Reverse(group.growth.map(more)), group.id));
    Ok(found)
}

/// The growth of the busiest groups; those that do not grow are left out. What is merged counts for its target.
async fn growing(
    tx: &mut TenantTx,
    (app, version): (Option<&str>, Option<&str>),
    first: Date,
    now: OffsetDateTime,
) -> Result<BTreeMap<Uuid, GroupGrowth>> {
    let (connection, tenant, _) = tx.parts();
    let end = now.date().saturating_add(Duration::DAY);
    let today = (now.time() - Time::MIDNIGHT) / Duration::DAY;
    let rows = sqlx::query!(
        r#"WITH recent AS MATERIALIZED (
               SELECT r.group_id, sum(r.reports) AS reports
               FROM (SELECT group_id, version, reports FROM group_days
                     WHERE tenant = $1 AND day >= $2 AND day < $3 ORDER BY day DESC LIMIT $7) r
               WHERE $6::text IS NULL OR r.version = $6
               GROUP BY r.group_id),
           busiest AS MATERIALIZED (
               SELECT r.group_id FROM recent r
               WHERE $5::text IS NULL OR r.group_id IN (SELECT id FROM groups WHERE tenant = $1 AND app = $5)
               ORDER BY r.reports DESC, r.group_id LIMIT $8),
           targets AS MATERIALIZED (
               SELECT DISTINCT coalesce(m.merged_into, m.id) AS id
               FROM busiest b JOIN groups m ON m.tenant = $1 AND m.id = b.group_id)
           SELECT t.id AS "id!", c.reports AS "reports!", c.reports_before AS "reports_before!"
           FROM targets t CROSS JOIN LATERAL (
               SELECT coalesce(sum(d.reports) FILTER (WHERE d.day >= $2), 0)::bigint AS reports,
                      coalesce(round(sum(d.reports * CASE WHEN d.day = $2 - 1 THEN $9::float8 ELSE 1 END)
                                     FILTER (WHERE d.day < $2)), 0)::bigint AS reports_before
               FROM groups m JOIN group_days d ON d.tenant = $1 AND d.group_id = m.id
               WHERE m.tenant = $1 AND (m.id = t.id OR m.merged_into = t.id)
                 AND d.day >= $4 AND d.day < $3 AND ($6::text IS NULL OR d.version = $6)) c
           WHERE c.reports > c.reports_before"#,
        tenant,
        first,
        end,
        first.saturating_sub(end - first),
        app.map(|app| app.replace('\0', "")),
        version.map(|version| version.replace('\0', "")),
        MOST_ROWS,
        i64::from(MOST_GROUPS),
        today
    )
    .fetch_all(connection)
    .await?;
    let growth = |reports, reports_before| GroupGrowth { reports, reports_before };
    Ok(rows.into_iter().map(|row| (row.id, growth(row.reports, row.reports_before))).collect())
}
