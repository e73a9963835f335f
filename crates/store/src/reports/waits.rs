//! The symbols that a report has seen. These statements and their order make sure that no wake-up is lost:
//!
//! 1. every debug id gets a slot;
//! 2. the slots are held (`FOR SHARE`), in a statement of its own, so that its snapshot is taken
//!    after any builder that was ahead has committed, and builders that come later wait;
//! 3. the waits are written, with the generation that the report was symbolicated with;
//! 4. the generation of each slot in step 2 is compared with that: a newer generation is asked for.
//!
//! A builder raises the slot first and looks for waits after its commit. The second of the two sees the
//! first. For the system's slots, which every report would hold, one lock represents all of them (see
//! [`crate::wakes::system`]).

use super::keys::find_arrival_times;
use super::{Arrival, Change, Effects, ImageUse, KeyRow};
use crate::column::{DebugIdColumn, U64};
use crate::number::{to_row, to_row32};
use crate::outbox::NeededSymbols;
use crate::reports::RowKey;
use crate::slots::{self, HeldSlot};
use crate::{Result, TenantTx, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, OffsetDateTime};
use unslide_model::{DebugId, Owner, Quality};

/// Records the symbols that the changed reports have seen, and returns for each the newer ones.
pub(super) async fn record_waits(
    tx: &mut TenantTx,
    changes: &[Change<'_>],
    effects: Effects,
) -> Result<Vec<Vec<NeededSymbols>>> {
    record_in_steps(tx, changes, effects, async || {}).await
}

/// Does the same, with a pause before each statement that depends on the order: a test fills the pauses with
/// the actions of a concurrent builder.
pub(crate) async fn record_in_steps(
    tx: &mut TenantTx,
    changes: &[Change<'_>],
    effects: Effects,
    mut pause: impl AsyncFnMut(),
) -> Result<Vec<Vec<NeededSymbols>>> {
    let debug_ids: BTreeSet<Uuid> =
        changes.iter().flat_map(|c| &c.arrival.images).map(|image| image.debug_id.uuid()).collect();
    if debug_ids.is_empty() {
        return Ok(vec![Vec::new(); changes.len()]);
    }
    let debug_ids: Vec<Uuid> = debug_ids.into_iter().collect();
    pause().await;
    slots::ensure_slots(tx, &debug_ids).await?;
    pause().await;
    let held = slots::lock_slots(tx, &debug_ids).await?;
    let of_system = slots::read_system_slots(tx, &system_ids(changes)).await?;
    pause().await;
    let slots = Answering::from_slots(&held, &of_system);
    write_waits(tx, changes, &slots).await?;
    write_system(tx, changes, &slots, effects).await?;
    let newer =
        |change: &Change<'_>| change.arrival.images.iter().filter_map(|i| slots.newer_symbols(i)).collect();
    Ok(changes.iter().map(newer).collect())
}

/// Returns the symbols that could not be fetched for a report.
pub(super) fn list_unfetched(arrival: &Arrival) -> Vec<NeededSymbols> {
    let failed = arrival.images.iter().filter(|image| image.failed);
    failed
        .map(|image| NeededSymbols { debug_id: image.debug_id, generation: 0, system: image.system })
        .collect()
}

fn system_ids(changes: &[Change<'_>]) -> Vec<Uuid> {
    let images = changes.iter().flat_map(|c| &c.arrival.images).filter(|image| image.system);
    let ids: BTreeSet<Uuid> = images.map(|image| image.debug_id.uuid()).collect();
    ids.into_iter().collect()
}

/// Generations of the existing symbols, as the slots held them. The symbols of a system image are the
/// system's if there are any, else the tenant's own.
struct Answering {
    own: BTreeMap<DebugId, u64>,
    of_system: BTreeMap<DebugId, u64>,
}

impl Answering {
    fn from_slots(held: &[HeldSlot], of_system: &[HeldSlot]) -> Answering {
        let generations = |slots: &[HeldSlot]| {
            let there = slots.iter().filter(|slot| slot.quality > Quality::None);
            there.map(|slot| (slot.debug_id, slot.generation)).collect()
        };
        Answering { own: generations(held), of_system: generations(of_system) }
    }

    /// Returns the symbols that would answer for the image now.
    fn needed_symbols(&self, image: &ImageUse) -> Option<NeededSymbols> {
        let system = self.of_system.get(&image.debug_id).filter(|_| image.system);
        let generation = *system.or_else(|| self.own.get(&image.debug_id))?;
        Some(NeededSymbols { debug_id: image.debug_id, generation, system: system.is_some() })
    }

    /// Returns the symbols if they are newer than those that the image's report has seen: step 4.
    fn newer_symbols(&self, image: &ImageUse) -> Option<NeededSymbols> {
        self.needed_symbols(image).filter(|need| need.generation > self.seen_generation(image))
    }

    /// Returns the generation that a report counts as having seen. Symbols that could not be fetched count:
    /// they are retried by the clock, and only newer ones by their event.
    fn seen_generation(&self, image: &ImageUse) -> u64 {
        let failed = self.needed_symbols(image).filter(|_| image.failed).map_or(0, |need| need.generation);
        image.seen_generation.max(failed)
    }
}

/// Writes the waits of the app's own images, a row a report: step 3.
async fn write_waits(tx: &mut TenantTx, changes: &[Change<'_>], slots: &Answering) -> Result<()> {
    let mut rows: Vec<(Uuid, OffsetDateTime, Uuid, i32, i64)> = changes
        .iter()
        .flat_map(|change| {
            let key = change.key;
            change.arrival.images.iter().filter(|image| !image.system).map(move |image| {
                let seen = to_row(slots.seen_generation(image));
                (image.debug_id.uuid(), key.received_at, key.report_id.uuid(), to_row32(key.variant), seen)
            })
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_unstable();
    let debug_ids: Vec<Uuid> = rows.iter().map(|row| row.0).collect();
    let times: Vec<OffsetDateTime> = rows.iter().map(|row| row.1).collect();
    let reports: Vec<Uuid> = rows.iter().map(|row| row.2).collect();
    let variants: Vec<i32> = rows.iter().map(|row| row.3).collect();
    let seen: Vec<i64> = rows.iter().map(|row| row.4).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO waits AS w (tenant, debug_id, received_at, report_id, variant, seen_generation)
         SELECT $1, n.debug_id, n.received_at, n.report_id, n.variant, n.seen
         FROM unnest($2::uuid[], $3::timestamptz[], $4::uuid[], $5::integer[], $6::bigint[])
              AS n (debug_id, received_at, report_id, variant, seen)
         ON CONFLICT (tenant, debug_id, received_at, report_id, variant) DO UPDATE
         SET seen_generation = greatest(w.seen_generation, EXCLUDED.seen_generation)",
        tenant,
        &debug_ids,
        &times,
        &reports,
        &variants,
        &seen
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes the waits of system images, a row a day, with the least generation that a report of that day has
/// seen or is asked for: step 3.
async fn write_system(
    tx: &mut TenantTx,
    changes: &[Change<'_>],
    slots: &Answering,
    effects: Effects,
) -> Result<()> {
    let mut least: BTreeMap<(Uuid, Date), i64> = BTreeMap::new();
    for change in changes {
        let day = change.key.received_at.to_offset(time::UtcOffset::UTC).date();
        for image in change.arrival.images.iter().filter(|image| image.system) {
            let seen = slots.seen_generation(image);
            // Newer symbols are asked for in this transaction: the other reports of the day don't lack them.
            let asked = slots.needed_symbols(image).filter(|_| effects == Effects::Now);
            let seen = to_row(asked.map_or(seen, |need| need.generation.max(seen)));
            let entry = least.entry((image.debug_id.uuid(), day)).or_insert(seen);
            *entry = (*entry).min(seen);
        }
    }
    if least.is_empty() {
        return Ok(());
    }
    let debug_ids: Vec<Uuid> = least.keys().map(|(id, _)| *id).collect();
    let days: Vec<Date> = least.keys().map(|(_, day)| *day).collect();
    let seen: Vec<i64> = least.into_values().collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO system_waits (tenant, debug_id, day, seen_generation)
         SELECT $1, n.debug_id, n.day, n.seen
         FROM unnest($2::uuid[], $3::date[], $4::bigint[]) AS n (debug_id, day, seen)
         ORDER BY n.debug_id, n.day
         ON CONFLICT DO NOTHING",
        tenant,
        &debug_ids,
        &days,
        &seen
    )
    .execute(&mut *connection)
    .await?;
    // Nearly always no row needs to be lowered; a DO UPDATE would lock the day's rows for every batch.
    sqlx::query!(
        "UPDATE system_waits w SET seen_generation = n.seen
         FROM unnest($2::uuid[], $3::date[], $4::bigint[]) AS n (debug_id, day, seen)
         WHERE w.tenant = $1 AND w.debug_id = n.debug_id AND w.day = n.day AND w.seen_generation > n.seen",
        tenant,
        &debug_ids,
        &days,
        &seen
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Symbols that reports need, each report by its id and variant.
pub(crate) type NeedsByReport = BTreeMap<RowKey, Vec<NeededSymbols>>;

struct NeedRow {
    report_id: Uuid,
    variant: i32,
    debug_id: DebugId,
    generation: u64,
    system: bool,
}

fn by_report(rows: Vec<NeedRow>) -> NeedsByReport {
    let mut needs = NeedsByReport::new();
    for NeedRow { report_id, variant, debug_id, generation, system } in rows {
        needs.entry((report_id, variant)).or_default().push(NeededSymbols { debug_id, generation, system });
    }
    needs
}

/// Returns the existing symbols of these reports' own images, by the rows alone: for reports that were stored
/// earlier and are requested again. With `newer` only symbols that the reports have not seen; their keys have
/// to be locked then.
pub(crate) async fn own_symbols(tx: &mut TenantTx, reports: &[RowKey], newer: bool) -> Result<NeedsByReport> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = reports.iter().copied().unzip();
    let times = find_arrival_times(tx, &ids).await?;
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        NeedRow,
        r#"SELECT w.report_id, w.variant, w.debug_id AS "debug_id: DebugIdColumn", s.generation AS "generation: U64",
                  false AS "system!"
           FROM unnest($2::uuid[], $3::integer[]) AS r (report_id, variant)
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = r.report_id AND k.variant = r.variant
           JOIN waits w ON w.tenant = k.tenant AND w.received_at = ANY ($5) AND w.received_at = k.received_at
                       AND w.report_id = k.report_id AND w.variant = k.variant
           JOIN symbol_slots s ON s.tenant = w.tenant AND s.debug_id = w.debug_id
           WHERE s.quality > 0 AND (NOT $4 OR s.generation > w.seen_generation)
           ORDER BY w.report_id, w.variant, w.debug_id"#,
        tenant,
        &ids,
        &variants,
        newer,
        &times
    )
    .fetch_all(connection)
    .await?;
    Ok(by_report(rows))
}

/// Returns symbols of system images that are newer than those that these reports have seen, as far as the
/// rows say. A row represents all reports of a day, so the result may name symbols that a report has seen
/// already. An answer then says that nothing got better.
pub(crate) async fn newer_of_system(tx: &mut TenantTx, reports: &[RowKey]) -> Result<NeedsByReport> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = reports.iter().copied().unzip();
    let times = find_arrival_times(tx, &ids).await?;
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        NeedRow,
        r#"SELECT r.report_id, r.variant, s.debug_id AS "debug_id: DebugIdColumn", s.generation AS "generation: U64",
                  s.tenant <> $1 AS "system!"
           FROM unnest($2::uuid[], $4::integer[]) AS n (report_id, variant)
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = n.report_id AND k.variant = n.variant
           CROSS JOIN LATERAL (
               SELECT * FROM reports o
               WHERE o.tenant = $1 AND o.received_at = ANY ($5) AND o.received_at = k.received_at AND o.report_id = k.report_id
                 AND o.variant = k.variant
               LIMIT 1) r
           CROSS JOIN LATERAL unnest(r.system_images) AS i (debug_id)
           JOIN system_waits w ON w.tenant = k.tenant AND w.debug_id = i.debug_id
                              AND w.day = (r.received_at AT TIME ZONE 'UTC')::date
           JOIN symbol_slots s ON s.tenant IN ($1, $3) AND s.debug_id = i.debug_id
           WHERE s.quality > 0 AND s.generation > w.seen_generation
           ORDER BY r.report_id, r.variant, s.debug_id, s.tenant"#,
        tenant,
        &ids,
        Owner::System.as_str(),
        &variants,
        &times
    )
    .fetch_all(connection)
    .await?;
    Ok(by_report(rows))
}

/// Returns the symbols of reports' system images that came after a time, the tenant's and the system's.
pub(crate) async fn system_since(
    tx: &mut TenantTx,
    reports: &[(&KeyRow, OffsetDateTime)],
) -> Result<NeedsByReport> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = reports.iter().map(|(key, _)| key.row_key()).unzip();
    let (received, since): (Vec<OffsetDateTime>, Vec<OffsetDateTime>) =
        reports.iter().map(|(key, since)| (key.received_at, *since)).unzip();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        NeedRow,
        r#"SELECT r.report_id, r.variant, s.debug_id AS "debug_id: DebugIdColumn", s.generation AS "generation: U64",
                  s.tenant <> $1 AS "system!"
           FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[], $6::timestamptz[])
               AS a (received_at, report_id, variant, since)
           CROSS JOIN LATERAL (
               SELECT * FROM reports o
               WHERE o.tenant = $1 AND o.received_at = ANY ($2) AND o.received_at = a.received_at AND o.report_id = a.report_id
                 AND o.variant = a.variant
               LIMIT 1) r
           CROSS JOIN LATERAL unnest(r.system_images) AS i (debug_id)
           JOIN symbol_slots s ON s.tenant IN ($1, $5) AND s.debug_id = i.debug_id
           WHERE s.quality > 0 AND s.updated_at >= a.since
           ORDER BY r.report_id, r.variant, s.debug_id, s.tenant"#,
        tenant,
        &received,
        &ids,
        &variants,
        Owner::System.as_str(),
        &since
    )
    .fetch_all(connection)
    .await?;
    Ok(by_report(rows))
}
