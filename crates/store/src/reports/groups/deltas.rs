//! The counts of groups by day, by hour and by dimension, and what new reports add to them: rows of `group_deltas`, until the
//! indexer folds them into `group_days`, `group_hours` and `group_breakdowns`. Storing a report touches no page of these tables. Readers add both.
//!
//! Rows are only added. Before a report leaves a group, the group's rows are folded in the same transaction.

use super::breakdowns::{self, describe_hardware};
use super::counts::{CountDeltas, CountKey};
use super::sketches::DeviceSketches;
use super::{GroupChange, hours, write};
use crate::column::{TenantColumn, U64};
use crate::number::{to_row, to_row32};
use crate::{GroupId, Result, Store, TenantTx};
use std::collections::BTreeSet;
use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_model::timestamp::begin_of_hour;

/// The rows that one statement folds.
const FOLD_PAGE_ROWS: u32 = 5_000;

/// Returns the count that a change of a group concerns.
fn build_key(one: &GroupChange<'_>) -> CountKey {
    let (model, os_version) = describe_hardware(&one.made_on);
    CountKey {
        group: one.row.id,
        hour: begin_of_hour(one.received_at),
        version: one.version.clone(),
        model,
        os_version,
        device: one.made_on.device.clone().filter(|_| one.sign > 0),
    }
}

/// Counts reports by day, by hour and by dimension. The groups' rows have to be locked.
pub(super) async fn record_counts(tx: &mut TenantTx, counted: &[GroupChange<'_>]) -> Result<()> {
    let leaving: BTreeSet<GroupId> =
        counted.iter().filter(|one| one.sign < 0).map(|one| one.row.id).collect();
    let (mut direct, mut gained) = (CountDeltas::new(), CountDeltas::new());
    for one in counted.iter().filter(|one| one.sign != 0) {
        let counts = if leaving.contains(&one.row.id) { &mut direct } else { &mut gained };
        *counts.entry(build_key(one)).or_default() += one.report_delta();
    }
    append_deltas(tx, &gained).await?;
    if leaving.is_empty() {
        return Ok(());
    }
    // The rows come first: a count that falls to zero is deleted.
    let leaving: Vec<GroupId> = leaving.into_iter().collect();
    while fold_page(tx, &leaving, FOLD_PAGE_ROWS).await? == u64::from(FOLD_PAGE_ROWS) {}
    write_counts(tx, &direct).await
}

async fn append_deltas(tx: &mut TenantTx, gained: &CountDeltas) -> Result<()> {
    if gained.is_empty() {
        return Ok(());
    }
    let groups: Vec<GroupId> = gained.keys().map(|key| key.group).collect();
    let hours: Vec<OffsetDateTime> = gained.keys().map(|key| key.hour).collect();
    let versions: Vec<String> = gained.keys().map(|key| key.version.clone()).collect();
    let models: Vec<String> = gained.keys().map(|key| key.model.clone()).collect();
    let os_versions: Vec<String> = gained.keys().map(|key| key.os_version.clone()).collect();
    let devices: Vec<Option<Vec<u8>>> = gained.keys().map(|key| key.device.clone()).collect();
    let reports: Vec<i64> = gained.values().copied().collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO group_deltas (tenant, group_id, hour, version, model, os_version, device, reports, added_at)
         SELECT $1, n.group_id, n.hour, n.version, n.model, n.os_version, n.device, n.reports, $9
         FROM unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bigint[])
              AS n (group_id, hour, version, model, os_version, device, reports)",
        tenant,
        &groups as &[GroupId],
        &hours,
        &versions,
        &models,
        &os_versions,
        &devices as &[Option<Vec<u8>>],
        &reports,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds to the counts themselves.
async fn write_counts(tx: &mut TenantTx, counts: &CountDeltas) -> Result<()> {
    if counts.is_empty() {
        return Ok(());
    }
    let sketches = DeviceSketches::load_with_devices(tx, counts.keys()).await?;
    write::write_days(tx, counts, &sketches).await?;
    hours::write_hours(tx, counts).await?;
    breakdowns::write_breakdowns(tx, counts, &sketches).await
}

/// Folds at most `limit` rows of groups with locked rows. Returns their number.
async fn fold_page(tx: &mut TenantTx, groups: &[GroupId], limit: u32) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"DELETE FROM group_deltas d
         USING (SELECT group_id, id FROM group_deltas WHERE tenant = $1 AND group_id = ANY ($2)
                ORDER BY group_id, id LIMIT $3) n
         WHERE d.tenant = $1 AND d.group_id = ANY ($2) AND d.group_id = n.group_id AND d.id = n.id
         RETURNING d.group_id AS "group_id: GroupId", d.hour, d.version, d.model, d.os_version, d.device, d.reports"#,
        tenant,
        groups as &[GroupId],
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let folded = rows.len() as u64;
    let mut counts = CountDeltas::new();
    for row in rows {
        let key = CountKey {
            group: row.group_id,
            hour: row.hour,
            version: row.version,
            model: row.model,
            os_version: row.os_version,
            device: row.device,
        };
        *counts.entry(key).or_default() += row.reports;
    }
    write_counts(tx, &counts).await?;
    Ok(folded)
}

/// A group with rows that are to be folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDeltas {
    /// The tenant of the group.
    pub tenant: TenantId,
    /// The group.
    pub group: GroupId,
    /// The number of its rows.
    pub deltas: u64,
    /// When the oldest of them was added.
    pub oldest: OffsetDateTime,
}

/// Returns the groups of all tenants with `many` rows, or with a row from before a time: those with the oldest rows first, at
/// most `limit`.
pub async fn list_due(
    store: &Store,
    many: u64,
    before: OffsetDateTime,
    limit: u32,
) -> Result<Vec<DueDeltas>> {
    Ok(sqlx::query_as!(
        DueDeltas,
        r#"SELECT tenant AS "tenant!: TenantColumn", group_id AS "group!: GroupId", deltas AS "deltas!: U64", oldest AS "oldest!"
           FROM unslide_deltas_due($1, $2, $3)"#,
        to_row(many),
        before,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?)
}

/// Locks groups in the order in which batches do, and returns those that exist.
pub(in crate::reports) async fn lock_groups(tx: &mut TenantTx, groups: &[GroupId]) -> Result<Vec<GroupId>> {
    let (connection, tenant, _) = tx.parts();
    let locked = sqlx::query_scalar!(
        r#"SELECT id AS "id: GroupId" FROM groups WHERE tenant = $1 AND id = ANY ($2) ORDER BY id FOR NO KEY UPDATE"#,
        tenant,
        groups as &[GroupId]
    );
    Ok(locked.fetch_all(connection).await?)
}

/// Folds at most `limit` rows of groups. Returns true if more may be left. Returns false if another transaction folds rows of
/// the tenant.
pub async fn fold_groups(tx: &mut TenantTx, groups: &[GroupId], limit: u32) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let is_alone: bool =
        sqlx::query_scalar("SELECT pg_try_advisory_xact_lock(hashtextextended('deltas ' || $1, 0))")
            .bind(tenant)
            .fetch_one(&mut *connection)
            .await?;
    if !is_alone {
        return Ok(false);
    }
    let locked = lock_groups(tx, groups).await?;
    Ok(fold_page(tx, &locked, limit).await? == u64::from(limit))
}
