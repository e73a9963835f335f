//! Waking: asking for the reports that came before the symbols did. Done in pages by a job, after
//! the symbols' slot was raised and committed.

use crate::number::{from_row32, to_row, to_row32};
use crate::outbox::Need;
use crate::reports::lock_known;
use crate::requests::{self, Ask};
use crate::slots;
use crate::{Result, TenantTx, Uuid};
use std::collections::BTreeSet;
use time::OffsetDateTime;
use unslide_model::{DebugId, Quality, ReportId};

/// Where a wake goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeCursor {
    /// False while the waits of single reports are gone through, true for those of whole days.
    system: bool,
    last: Option<(OffsetDateTime, ReportId, u32)>,
}

/// What a page did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakePage {
    /// How many waiting reports were looked at.
    pub waiting: u64,
    /// How many of them a request was made for. The others have one on its way already, after
    /// which they are asked about anew.
    pub requested: u64,
    /// Where to go on; `None` when all is done.
    pub next: Option<WakeCursor>,
}

struct Waiting {
    received_at: OffsetDateTime,
    report_id: Uuid,
    variant: i32,
}

/// Asks for the next `limit` reports that wait for `generation` of a debug id, the newest first.
/// Commit after each page.
///
/// # Errors
/// Where the database fails.
pub async fn page(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    from: Option<WakeCursor>,
    limit: u32,
) -> Result<WakePage> {
    let done = WakePage { waiting: 0, requested: 0, next: None };
    let slot = slots::get(tx, debug_id).await?;
    // Taken away again: a later publication has a wake of its own.
    if slot.is_none_or(|slot| slot.quality == Quality::None) {
        return Ok(done);
    }
    let from = from.unwrap_or(WakeCursor { system: false, last: None });
    let found = match from.system {
        false => waiting(tx, debug_id, generation, from.last, limit).await?,
        true => waiting_days(tx, debug_id, generation, from.last, limit).await?,
    };
    let requested = ask(tx, debug_id, generation, &found, from.system).await?;
    let full = found.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let last = found.last().map(|w| (w.received_at, ReportId::from_uuid(w.report_id), from_row32(w.variant)));
    let next = match (full, from.system) {
        (true, system) => Some(WakeCursor { system, last }),
        (false, false) => Some(WakeCursor { system: true, last: None }),
        (false, true) => {
            let (connection, tenant, _) = tx.parts();
            sqlx::query!(
                "UPDATE system_waits SET seen_generation = $3
                 WHERE tenant = $1 AND debug_id = $2 AND seen_generation < $3",
                tenant,
                debug_id.uuid(),
                to_row(generation)
            )
            .execute(connection)
            .await?;
            None
        }
    };
    let waiting = u64::try_from(found.len()).unwrap_or(u64::MAX);
    Ok(WakePage { waiting, requested, next })
}

async fn waiting(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    last: Option<(OffsetDateTime, ReportId, u32)>,
    limit: u32,
) -> Result<Vec<Waiting>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        Waiting,
        "SELECT received_at, report_id, variant FROM waits
         WHERE tenant = $1 AND debug_id = $2 AND seen_generation < $3
           AND ($4::timestamptz IS NULL OR (received_at, report_id, variant) < ($4, $5::uuid, $6::integer))
         ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $7",
        tenant,
        debug_id.uuid(),
        to_row(generation),
        last.map(|l| l.0),
        last.map(|l| l.1.uuid()),
        last.map(|l| to_row32(l.2)),
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

async fn waiting_days(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    last: Option<(OffsetDateTime, ReportId, u32)>,
    limit: u32,
) -> Result<Vec<Waiting>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        Waiting,
        "SELECT r.received_at, r.report_id, r.variant FROM reports r
         WHERE r.tenant = $1 AND r.system_images @> ARRAY[$2::uuid]
           AND (r.received_at AT TIME ZONE 'UTC')::date IN (
               SELECT day FROM system_waits WHERE tenant = $1 AND debug_id = $2 AND seen_generation < $3)
           AND ($4::timestamptz IS NULL OR (r.received_at, r.report_id, r.variant) < ($4, $5::uuid, $6::integer))
         ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $7",
        tenant,
        debug_id.uuid(),
        to_row(generation),
        last.map(|l| l.0),
        last.map(|l| l.1.uuid()),
        last.map(|l| to_row32(l.2)),
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Locks the reports' keys, and asks for those that have still not seen the generation.
async fn ask(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    found: &[Waiting],
    system: bool,
) -> Result<u64> {
    if found.is_empty() {
        return Ok(0);
    }
    let ids: BTreeSet<Uuid> = found.iter().map(|w| w.report_id).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let keys = lock_known(tx, &ids).await?;
    let still: BTreeSet<(Uuid, i32)> = if system {
        found.iter().map(|w| (w.report_id, w.variant)).collect()
    } else {
        // Under the keys' locks: a revision that was stored since then has seen more.
        let (connection, tenant, _) = tx.parts();
        let rows = sqlx::query!(
            "SELECT report_id, variant FROM waits
             WHERE tenant = $1 AND debug_id = $2 AND report_id = ANY ($3) AND seen_generation < $4",
            tenant,
            debug_id.uuid(),
            &ids,
            to_row(generation)
        )
        .fetch_all(connection)
        .await?;
        rows.into_iter().map(|row| (row.report_id, row.variant)).collect()
    };
    let need = Need { debug_id: *debug_id, generation, system };
    let asks: Vec<Ask> = keys
        .iter()
        .filter(|key| !key.deleted && still.contains(&(key.report_id.uuid(), to_row32(key.variant))))
        .map(|key| Ask::about(key, vec![need]))
        .collect();
    let placed = requests::place(tx, &asks).await?;
    Ok(u64::try_from(placed.iter().flatten().count()).unwrap_or(u64::MAX))
}
