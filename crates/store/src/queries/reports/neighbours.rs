//! The reports next to a report in its group.

use super::ReportRow;
use crate::number::to_row32;
use crate::queries::groups::with_merged;
use crate::{GroupId, Result, TenantTx, Uuid};
use sqlx::{Postgres, QueryBuilder};
use unslide_model::ReportId;

/// Returns the reports of a group that arrived right after and right before one of them.
pub async fn find_neighbours(
    tx: &mut TenantTx,
    report: &ReportRow,
) -> Result<(Option<(ReportId, u32)>, Option<(ReportId, u32)>)> {
    let Some(group) = report.group else { return Ok((None, None)) };
    let groups = with_merged(tx, group).await?;
    let newer = find_neighbour(tx, &groups, report, ">", "ASC").await?;
    Ok((newer, find_neighbour(tx, &groups, report, "<", "DESC").await?))
}

async fn find_neighbour(
    tx: &mut TenantTx,
    groups: &[GroupId],
    report: &ReportRow,
    beyond: &str,
    order: &str,
) -> Result<Option<(ReportId, u32)>> {
    let (connection, tenant, _) = tx.parts();
    // The nearest of each group, by the index, and the nearest of these.
    let by = format!("received_at {order}, report_id {order}, variant {order} LIMIT 1");
    let mut query = QueryBuilder::<Postgres>::new("SELECT n.report_id, n.variant FROM unnest(");
    query.push_bind(groups.to_vec()).push(
        ") AS g (id) CROSS JOIN LATERAL (SELECT received_at, report_id, variant FROM reports WHERE group_id = g.id AND tenant = ",
    );
    query.push_bind(tenant.to_owned());
    query.push(format!(" AND (received_at, report_id, variant) {beyond} ("));
    query.push_bind(report.received_at).push(", ").push_bind(report.report_id.uuid());
    query.push(", ").push_bind(to_row32(report.variant));
    query.push(format!(") ORDER BY {by}) n ORDER BY {by}"));
    let found: Option<(Uuid, i32)> = query.build_query_as().fetch_optional(connection).await?;
    Ok(found.map(|(id, variant)| (ReportId(id.into_bytes()), u32::try_from(variant).unwrap_or_default())))
}
