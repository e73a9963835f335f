//! The rows of `group_hours`.

use super::counts::CountDeltas;
use crate::reports::rollups::HOUR_COUNTS_RETENTION;
use crate::{GroupId, Result, TenantTx};
use std::collections::BTreeMap;
use time::OffsetDateTime;

/// Adds to what groups count by hour. Hours that are not kept any more do not change. The groups' rows are locked.
pub(super) async fn write_hours(tx: &mut TenantTx, counts: &CountDeltas) -> Result<()> {
    let oldest = tx.now() - HOUR_COUNTS_RETENTION;
    let mut hours: BTreeMap<(GroupId, OffsetDateTime), i64> = BTreeMap::new();
    for (key, reports) in counts.iter().filter(|(key, _)| key.hour >= oldest) {
        *hours.entry((key.group, key.hour)).or_default() += reports;
    }
    hours.retain(|_, reports| *reports != 0);
    if hours.is_empty() {
        return Ok(());
    }
    let groups: Vec<GroupId> = hours.keys().map(|key| key.0).collect();
    let begins: Vec<OffsetDateTime> = hours.keys().map(|key| key.1).collect();
    let reports: Vec<i64> = hours.values().copied().collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO group_hours AS h (tenant, group_id, hour, reports)
         SELECT $1, n.group_id, n.hour, n.reports
         FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[]) AS n (group_id, hour, reports)
         ORDER BY n.group_id, n.hour
         ON CONFLICT (tenant, group_id, hour) DO UPDATE SET reports = h.reports + EXCLUDED.reports",
        tenant,
        &groups as &[GroupId],
        &begins,
        &reports
    )
    .execute(&mut *connection)
    .await?;
    if reports.iter().any(|reports| *reports < 0) {
        sqlx::query!(
            "DELETE FROM group_hours WHERE tenant = $1 AND group_id = ANY ($2) AND hour = ANY ($3) AND reports <= 0",
            tenant,
            &groups as &[GroupId],
            &begins
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}
