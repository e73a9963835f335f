//! The rows of `group_devices`: which devices have reports of a group, and how many devices groups count.

use super::GroupChange;
use crate::{GroupId, Result, TenantTx};
use std::collections::BTreeMap;

/// A device that is the first time, or no longer, among those of a group.
struct DeviceChange {
    group: GroupId,
    device: Vec<u8>,
    gained: bool,
}

/// Counts reports by device. The rows of the groups and of their targets must be locked, so that no other
/// transaction counts the same devices at the same time.
pub(super) async fn count_devices(tx: &mut TenantTx, counted: &[GroupChange<'_>]) -> Result<()> {
    let mut rows: BTreeMap<(GroupId, &[u8]), i64> = BTreeMap::new();
    for one in counted {
        if let Some(device) = one.made_on.device.as_deref() {
            *rows.entry((one.row.id, device)).or_default() += one.sign;
        }
    }
    rows.retain(|_, reports| *reports != 0);
    let changes = write_devices(tx, &rows).await?;
    add_to_groups(tx, &changes).await
}

async fn write_devices(
    tx: &mut TenantTx,
    rows: &BTreeMap<(GroupId, &[u8]), i64>,
) -> Result<Vec<DeviceChange>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let groups: Vec<GroupId> = rows.keys().map(|key| key.0).collect();
    let devices: Vec<Vec<u8>> = rows.keys().map(|key| key.1.to_vec()).collect();
    let reports: Vec<i64> = rows.values().copied().collect();
    let (connection, tenant, _) = tx.parts();
    // A row that this statement made has no transaction that changed or locked it.
    let written = sqlx::query!(
        r#"INSERT INTO group_devices AS d (tenant, group_id, device, reports)
           SELECT $1, n.group_id, n.device, n.reports
           FROM unnest($2::uuid[], $3::bytea[], $4::bigint[]) AS n (group_id, device, reports)
           ORDER BY n.group_id, n.device
           ON CONFLICT (tenant, group_id, device) DO UPDATE SET reports = d.reports + EXCLUDED.reports
           RETURNING group_id AS "group_id: GroupId", device, reports, (xmax = 0) AS "new!""#,
        tenant,
        &groups as &[GroupId],
        &devices,
        &reports
    )
    .fetch_all(&mut *connection)
    .await?;
    if written.iter().any(|row| row.reports <= 0) {
        sqlx::query!(
            "DELETE FROM group_devices d USING unnest($2::uuid[], $3::bytea[]) AS n (group_id, device)
             WHERE d.tenant = $1 AND d.group_id = n.group_id AND d.device = n.device AND d.reports <= 0",
            tenant,
            &groups as &[GroupId],
            &devices
        )
        .execute(connection)
        .await?;
    }
    // A row that is new and stays, or one that was there and goes.
    let changed = written.into_iter().filter(|row| row.new == (row.reports > 0));
    Ok(changed.map(|row| DeviceChange { group: row.group_id, device: row.device, gained: row.new }).collect())
}

/// Changes the counts of groups, and the counts of their targets if no other group of a target has the
/// device.
async fn add_to_groups(tx: &mut TenantTx, changes: &[DeviceChange]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let groups: Vec<GroupId> = changes.iter().map(|change| change.group).collect();
    let devices: Vec<Vec<u8>> = changes.iter().map(|change| change.device.clone()).collect();
    let gained: Vec<bool> = changes.iter().map(|change| change.gained).collect();
    let (connection, tenant, _) = tx.parts();
    // Where nothing is merged, a group counts its own devices: only targets of merges look at the groups that they have.
    // `holders` are those of them that have the device now. It was among theirs before if one has lost it, or if one has it
    // that has not gained it here.
    sqlx::query!(
        r#"WITH changed AS MATERIALIZED (
               SELECT c.group_id, c.device, c.gained, coalesce(g.merged_into, g.id) AS target
               FROM unnest($2::uuid[], $3::bytea[], $4::boolean[]) AS c (group_id, device, gained)
               JOIN groups g ON g.tenant = $1 AND g.id = c.group_id),
           own AS (
               SELECT group_id AS id, sum(CASE WHEN gained THEN 1 ELSE -1 END)::bigint AS devices
               FROM changed GROUP BY group_id),
           merged AS MATERIALIZED (
               SELECT m.merged_into AS id, array_agg(m.id) || m.merged_into AS members FROM groups m
               WHERE m.tenant = $1 AND m.merged_into = ANY (ARRAY(SELECT DISTINCT target FROM changed))
               GROUP BY m.merged_into),
           touched AS (
               SELECT c.target AS id, c.device, bool_or(NOT c.gained) AS lost, count(*) FILTER (WHERE c.gained) AS gains
               FROM changed c GROUP BY 1, 2),
           total AS (
               SELECT t.id, sum((h.holders > 0)::integer - (t.lost OR h.holders > t.gains)::integer)::bigint AS devices
               FROM touched t JOIN merged m USING (id)
               CROSS JOIN LATERAL (
                   SELECT count(*) AS holders FROM group_devices d
                   WHERE d.tenant = $1 AND d.device = t.device AND d.group_id = ANY (m.members)) h
               GROUP BY t.id)
           UPDATE groups g
           SET own_devices = g.own_devices + coalesce(c.own, 0), devices = g.devices + coalesce(c.total, c.own)
           FROM (SELECT id, own.devices AS own, total.devices AS total FROM own FULL JOIN total USING (id)) c
           WHERE g.tenant = $1 AND g.id = c.id"#,
        tenant,
        &groups as &[GroupId],
        &devices,
        &gained
    )
    .execute(connection)
    .await?;
    Ok(())
}
