//! Waking: asking for the reports that came before the symbols did. Done in pages by a job, after
//! the symbols' slot was raised and committed.

pub(crate) mod cursor;
mod days;
pub mod missed;
pub mod system;

pub use cursor::WakeCursor;

use crate::number::{to_row, to_row32};
use crate::outbox::NeededSymbols;
use crate::reports::RowKey;
use crate::slots;
use crate::{Result, TenantTx, Uuid};
use cursor::Last;
use days::{LackingDay, WaitingReport, ask_all, last_of_full, next_day, page_of_day};
use std::collections::BTreeSet;
use unslide_model::{DebugId, Quality};

/// System symbols that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrived {
    /// The debug id.
    pub debug_id: DebugId,
    /// Its slot's generation.
    pub generation: u64,
}

/// The result of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakePage {
    /// How many waiting reports were looked at.
    pub waiting: u64,
    /// How many of them a request was made for. The others have one on its way already, after which they are
    /// requested again.
    pub requested: u64,
    /// The position to continue from; `None` when all is done.
    pub next: Option<WakeCursor>,
}

/// Asks for the next `limit` reports that wait for `generation` of a debug id, the newest first.
/// Commit after each page.
pub async fn request_page(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    from: Option<WakeCursor>,
    limit: u32,
) -> Result<WakePage> {
    let done = WakePage { waiting: 0, requested: 0, next: None };
    let slot = slots::get(tx, debug_id).await?;
    // The symbols were deleted: a later publication has a wake of its own.
    if slot.is_none_or(|slot| slot.quality == Quality::None) {
        return Ok(done);
    }
    let arrived = [Arrived { debug_id: *debug_id, generation }];
    let WakeCursor { day, last } = from.unwrap_or(WakeCursor { day: None, last: None });
    if let Some(day) = day {
        let lacking = LackingDay { day, debug_ids: vec![debug_id.uuid()] };
        let page = page_of_day(tx, &arrived, false, &lacking, last, limit).await?;
        let next = match page.last {
            Some(last) => Some(WakeCursor { day: Some(day), last: Some(last) }),
            None => {
                next_day(tx, &arrived, Some(day), false).await?.map(|lacking| WakeCursor::at_day(lacking.day))
            }
        };
        return Ok(WakePage { waiting: page.found, requested: page.requested, next });
    }
    let found = list_waiting(tx, debug_id, generation, last, limit).await?;
    let still = still_waiting(tx, debug_id, generation, &found).await?;
    let need = NeededSymbols { debug_id: *debug_id, generation, system: false };
    let requested = ask_all(tx, &found, |found| still.contains(&found.key()).then(|| vec![need])).await?;
    let next = match last_of_full(&found, limit) {
        Some(last) => Some(WakeCursor { day: None, last: Some(last) }),
        None => next_day(tx, &arrived, None, false).await?.map(|lacking| WakeCursor::at_day(lacking.day)),
    };
    let waiting = u64::try_from(found.len()).unwrap_or(u64::MAX);
    Ok(WakePage { waiting, requested, next })
}

async fn list_waiting(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    last: Option<Last>,
    limit: u32,
) -> Result<Vec<WaitingReport>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        WaitingReport,
        r#"SELECT received_at, report_id, variant, '{}'::uuid[] AS "system_images!" FROM waits
           WHERE tenant = $1 AND debug_id = $2 AND seen_generation < $3
             AND ($4::timestamptz IS NULL OR (received_at, report_id, variant) < ($4, $5::uuid, $6::integer))
           ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $7"#,
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

/// Locks the keys of these reports; returns those that have still not seen the generation: a revision that
/// was stored since then has seen more.
async fn still_waiting(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    found: &[WaitingReport],
) -> Result<BTreeSet<RowKey>> {
    // A page is in the order of time: its ends say which days' tables to look into.
    let (Some(newest), Some(oldest)) = (found.first(), found.last()) else { return Ok(BTreeSet::new()) };
    days::lock_report_keys(tx, found).await?;
    let ids: Vec<Uuid> = found.iter().map(|w| w.report_id).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT report_id, variant FROM waits
         WHERE tenant = $1 AND debug_id = $2 AND received_at BETWEEN $3 AND $4 AND report_id = ANY ($5)
           AND seen_generation < $6",
        tenant,
        debug_id.uuid(),
        oldest.received_at,
        newest.received_at,
        &ids,
        to_row(generation)
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.report_id, row.variant)).collect())
}
