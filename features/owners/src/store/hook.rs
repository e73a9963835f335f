//! Groups become due in the transaction that makes an earlier look old.

use time::OffsetDateTime;
use unslide_model::ReportId;
use unslide_store::groups::GroupEvent;
use unslide_store::sql::to_row32;
use unslide_store::{GroupId, HookFuture, Result, StoreEvent, StoredReports, TenantTx};

pub fn act_on_event<'e>(event: &'e mut StoreEvent<'_>) -> HookFuture<'e> {
    Box::pin(async move {
        match event {
            StoreEvent::GroupsChanged(tx, events) => add_new_groups(tx, events).await,
            StoreEvent::ReportsStored(tx, stored) => renew_revised(tx, stored).await,
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
        "INSERT INTO group_owners AS o (tenant, group_id, app, needed, next_look_at)
         SELECT $1, n.id, n.app, 1, $4 FROM unnest($2::uuid[], $3::text[]) AS n (id, app)
         WHERE EXISTS (SELECT FROM owner_apps a WHERE a.tenant = $1 AND a.app = n.app)
         ORDER BY n.id
         ON CONFLICT (tenant, group_id) DO UPDATE SET needed = o.needed + 1, next_look_at = $4",
        tenant,
        &groups as &[GroupId],
        &apps,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes groups due if their owner was read from an earlier revision of these reports.
async fn renew_revised(tx: &mut TenantTx, stored: &StoredReports) -> Result<()> {
    let revised: Vec<_> = stored.reports.iter().filter(|report| !report.is_new).collect();
    if revised.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = revised.iter().map(|report| report.id).map(ReportId::uuid).collect();
    let variants: Vec<i32> = revised.iter().map(|report| to_row32(report.variant)).collect();
    let revisions: Vec<i32> = revised.iter().map(|report| to_row32(report.revision)).collect();
    let (connection, tenant, now): (_, _, OffsetDateTime) = tx.parts();
    sqlx::query!(
        "UPDATE group_owners o SET needed = o.needed + 1, next_look_at = $5
         FROM (SELECT g.group_id FROM group_owners g
               JOIN unnest($2::uuid[], $3::int[], $4::int[]) AS r (report_id, variant, revision)
                 ON g.report_id = r.report_id AND g.variant = r.variant AND g.revision < r.revision
               WHERE g.tenant = $1 ORDER BY g.group_id FOR UPDATE OF g) d
         WHERE o.tenant = $1 AND o.group_id = d.group_id",
        tenant,
        &ids,
        &variants,
        &revisions,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
