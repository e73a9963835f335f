//! Growing groups: those with more reports than before.

use super::{self as groups, CountScope, GroupFilter, GroupGrowth, GroupOrder, ListedGroup};
use crate::{GroupId, Result, TenantTx};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use time::{Date, Duration, OffsetDateTime, Time};

/// The groups of which [`list_growing_groups`] finds those that grow.
const MOST_GROUPS: u32 = 500;

/// Lists the groups that match and have more reports in a period than in the one before it, the largest
/// growth first. The period is from the first day until now. Today is not over: of the last day of the period
/// before, the same share counts. With a version, its reports alone count. `reports` of a group are not
/// counted by version here: see [`groups::count`]. Of more than 500 groups that match, only those that were
/// seen last are considered.
pub async fn list_growing_groups(
    tx: &mut TenantTx,
    filter: &GroupFilter,
    first: Date,
    now: OffsetDateTime,
) -> Result<Vec<ListedGroup>> {
    let version = filter.scope.version();
    let seen_from = filter.seen_from.max(Some(first.midnight().assume_utc()));
    let filter = GroupFilter { scope: CountScope::default(), seen_from, ..filter.clone() };
    let mut found = groups::list_uncounted(tx, &filter, GroupOrder::LastSeen, None, MOST_GROUPS).await?;
    let ids: Vec<GroupId> = found.iter().map(|group| group.id).collect();
    let growing = read_growth(tx, &ids, version.as_deref(), first, now).await?;
    found.retain_mut(|group| {
        group.growth = growing.get(&group.id).copied();
        group.growth.is_some()
    });
    let more = |growth: GroupGrowth| growth.reports - growth.reports_before;
    found.sort_by_key(|group| (Reverse(group.growth.map(more)), group.id));
    Ok(found)
}

/// Returns the growth of those of these groups that grow. Reports of a merged group count for its target.
async fn read_growth(
    tx: &mut TenantTx,
    groups: &[GroupId],
    version: Option<&str>,
    first: Date,
    now: OffsetDateTime,
) -> Result<BTreeMap<GroupId, GroupGrowth>> {
    let (connection, tenant, _) = tx.parts();
    let end = now.date().saturating_add(Duration::DAY);
    let today = (now.time() - Time::MIDNIGHT) / Duration::DAY;
    let rows = sqlx::query!(
        r#"SELECT t.id AS "id!: GroupId", t.reports AS "reports!", t.reports_before AS "reports_before!"
           FROM (SELECT g.target AS id,
                        coalesce(sum(d.reports) FILTER (WHERE d.day >= $3), 0)::bigint AS reports,
                        coalesce(round(sum(d.reports * CASE WHEN d.day = $3 - 1 THEN $7::float8 ELSE 1 END)
                                       FILTER (WHERE d.day < $3)), 0)::bigint AS reports_before
                 FROM (SELECT id AS target, id FROM unnest($2::uuid[]) AS one (id)
                       UNION ALL
                       SELECT merged_into, id FROM groups WHERE tenant = $1 AND merged_into = ANY ($2)) g
                 CROSS JOIN LATERAL (
                     SELECT day, reports FROM group_day_counts
                     WHERE $6::text IS NULL AND tenant = $1 AND group_id = g.id AND day >= $4 AND day < $5
                     UNION ALL
                     SELECT day, reports FROM group_breakdown_counts
                     WHERE tenant = $1 AND group_id = g.id AND dimension = 'version' AND value = $6
                       AND day >= $4 AND day < $5) d
                 GROUP BY 1) t
           WHERE t.reports > t.reports_before"#,
        tenant,
        groups as &[GroupId],
        first,
        first.saturating_sub(end - first),
        end,
        version,
        today
    )
    .fetch_all(connection)
    .await?;
    let growth = |reports, reports_before| GroupGrowth { reports, reports_before };
    Ok(rows.into_iter().map(|row| (row.id, growth(row.reports, row.reports_before))).collect())
}
