//! Groups become due in the transaction that makes an earlier look old.

use time::{Duration, OffsetDateTime};
use unslide_model::ReportId;
use unslide_store::groups::GroupEvent;
use unslide_store::sql::to_row32;
use unslide_store::{GroupId, HookFuture, Result, StoreEvent, StoredReports, TenantTx};

/// The pause between two looks at a group without a source file, however many reports of it come.
const LATE_LOOK_INTERVAL: Duration = Duration::minutes(30);

pub fn act_on_event<'e>(event: &'e mut StoreEvent<'_>) -> HookFuture<'e> {
    Box::pin(async move {
        match event {
            StoreEvent::GroupsChanged(tx, events) => add_new_groups(tx, events).await,
            StoreEvent::GroupsMerged(tx, groups) => renew_merged(tx, groups).await,
            StoreEvent::ReportsStored(tx, stored) => renew_for_reports(tx, stored).await,
            _ => Ok(()),
        }
    })
}

/// Makes new groups of apps with owners due.
async fn add_new_groups(tx: &mut TenantTx, events: &[GroupEvent]) -> Result<()> {
    let new = events.iter().filter_map(|event| match event {
        GroupEvent::Created { group, app, .. } => Some((*group, app.clone())),
        _ => None,
    });
    let (groups, apps): (Vec<GroupId>, Vec<String>) = new.unzip();
    if groups.is_empty() {
        return Ok(());
    }
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO group_owners AS o (tenant, group_id, app, needed, cause_needed, next_look_at)
         SELECT $1, n.id, n.app, 1, 1, $4 FROM unnest($2::uuid[], $3::text[]) AS n (id, app)
         WHERE EXISTS (SELECT FROM owner_apps a WHERE a.tenant = $1 AND a.app = n.app)
         ORDER BY n.id
         ON CONFLICT (tenant, group_id) DO UPDATE
         SET needed = o.needed + 1, cause_needed = o.needed + 1, failures = 0, next_look_at = $4",
        tenant,
        &groups as &[GroupId],
        &apps,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes groups due that have other reports by a merge or a split.
async fn renew_merged(tx: &mut TenantTx, groups: &[GroupId]) -> Result<()> {
    let (connection, tenant, now): (_, _, OffsetDateTime) = tx.parts();
    sqlx::query!(
        "UPDATE group_owners o SET needed = o.needed + 1, cause_needed = o.needed + 1, failures = 0, next_look_at = $3
         FROM (SELECT g.group_id FROM group_owners g WHERE g.tenant = $1 AND g.group_id = ANY ($2)
               ORDER BY g.group_id FOR UPDATE) d
         WHERE o.tenant = $1 AND o.group_id = d.group_id",
        tenant,
        groups as &[GroupId],
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes groups due if their owner was read from an earlier revision of these reports, or if they have one of these reports and the
/// last look has found no source file or no report.
async fn renew_for_reports(tx: &mut TenantTx, stored: &StoredReports) -> Result<()> {
    let mut groups: Vec<GroupId> = stored.reports.iter().filter_map(|report| report.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let revised: Vec<_> = stored.reports.iter().filter(|report| !report.is_new).collect();
    if groups.is_empty() && revised.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = revised.iter().map(|report| report.id).map(ReportId::uuid).collect();
    let variants: Vec<i32> = revised.iter().map(|report| to_row32(report.variant)).collect();
    let revisions: Vec<i32> = revised.iter().map(|report| to_row32(report.revision)).collect();
    let (connection, tenant, now): (_, _, OffsetDateTime) = tx.parts();
    sqlx::query!(
        "WITH due AS (
             SELECT g.group_id, $6::timestamptz AS at FROM group_owners g
             JOIN unnest($2::uuid[], $3::int[], $4::int[]) AS r (report_id, variant, revision)
               ON g.report_id = r.report_id AND g.variant = r.variant AND g.revision < r.revision
             WHERE g.tenant = $1
             UNION ALL
             SELECT g.group_id, greatest($6, g.looked_at + make_interval(secs => $7))
             FROM unnest($5::uuid[]) AS n (id)
             JOIN groups b ON b.tenant = $1 AND b.id = n.id
             JOIN group_owners g ON g.tenant = $1 AND g.group_id = coalesce(b.merged_into, b.id)
             WHERE g.needed = g.done AND (g.outcome IN ('no_source', 'no_report') OR g.failures > 0)
         ), locked AS MATERIALIZED (
             SELECT g.group_id FROM group_owners g WHERE g.tenant = $1 AND g.group_id IN (SELECT due.group_id FROM due)
             ORDER BY g.group_id FOR UPDATE
         )
         UPDATE group_owners o SET needed = o.needed + 1, cause_needed = o.needed + 1, failures = 0,
             next_look_at = (SELECT min(due.at) FROM due WHERE due.group_id = o.group_id)
         FROM locked l WHERE o.tenant = $1 AND o.group_id = l.group_id",
        tenant,
        &ids,
        &variants,
        &revisions,
        &groups as &[GroupId],
        now,
        LATE_LOOK_INTERVAL.as_seconds_f64()
    )
    .execute(connection)
    .await?;
    Ok(())
}
