//! Waking: asking for the reports that came before the symbols did. Done in pages by a job, after
//! the symbols' slot was raised and committed.

mod asking;
pub mod missed;
pub mod system;

use crate::number::{from_row32, to_row, to_row32};
use crate::outbox::Need;
use crate::slots;
use crate::{Result, TenantTx, Uuid};
use asking::{Waiting, ask_all, of_day};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use time::{Date, OffsetDateTime};
use unslide_model::{DebugId, Quality, ReportId};

/// The last report of a page.
pub(crate) type Last = (OffsetDateTime, ReportId, u32);

/// Where a wake goes on. It is kept in the job, so that a builder that dies costs one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeCursor {
    /// None while the waits of single reports are gone through; then the day, of those that wait
    /// for an image of the operating system.
    day: Option<Date>,
    last: Option<Last>,
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
    let from = from.unwrap_or(WakeCursor { day: None, last: None });
    let found = match from.day {
        None => waiting(tx, debug_id, generation, from.last, limit).await?,
        Some(day) => of_day(tx, day, &[debug_id.uuid()], from.last, limit).await?,
    };
    let still = match from.day {
        None => Some(still_waiting(tx, debug_id, generation, &found).await?),
        Some(_) => None,
    };
    let need = Need { debug_id: *debug_id, generation, system: false };
    let requested = ask_all(tx, &found, |found| {
        still.as_ref().is_none_or(|still| still.contains(&found.key())).then(|| vec![need])
    })
    .await?;
    let next = match found.last().filter(|_| found.len() >= usize::try_from(limit).unwrap_or(usize::MAX)) {
        Some(last) => Some(WakeCursor { day: from.day, last: Some(last.place()) }),
        None => {
            if let Some(day) = from.day {
                seen(tx, debug_id, generation, day).await?;
            }
            let day = next_day(tx, debug_id, generation, from.day).await?;
            day.map(|day| WakeCursor { day: Some(day), last: None })
        }
    };
    let waiting = u64::try_from(found.len()).unwrap_or(u64::MAX);
    Ok(WakePage { waiting, requested, next })
}

async fn waiting(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    last: Option<Last>,
    limit: u32,
) -> Result<Vec<Waiting>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        Waiting,
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

/// Locks the keys of what was found; gives those that have still not seen the generation: a revision
/// that was stored since then has seen more.
async fn still_waiting(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    found: &[Waiting],
) -> Result<BTreeSet<(Uuid, i32)>> {
    // A page is in the order of time: its ends say which days' tables to look into.
    let (Some(newest), Some(oldest)) = (found.first(), found.last()) else { return Ok(BTreeSet::new()) };
    asking::lock(tx, found).await?;
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

/// The newest day, before one if that is given, of which a report lacks the generation of a system
/// image.
async fn next_day(
    tx: &mut TenantTx,
    debug_id: &DebugId,
    generation: u64,
    before: Option<Date>,
) -> Result<Option<Date>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        "SELECT max(day) FROM system_waits
         WHERE tenant = $1 AND debug_id = $2 AND seen_generation < $3 AND ($4::date IS NULL OR day < $4)",
        tenant,
        debug_id.uuid(),
        to_row(generation),
        before
    )
    .fetch_one(connection)
    .await?)
}

async fn seen(tx: &mut TenantTx, debug_id: &DebugId, generation: u64, day: Date) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE system_waits SET seen_generation = $4
         WHERE tenant = $1 AND debug_id = $2 AND day = $3 AND seen_generation < $4",
        tenant,
        debug_id.uuid(),
        day,
        to_row(generation)
    )
    .execute(connection)
    .await?;
    Ok(())
}

impl Waiting {
    pub(crate) fn key(&self) -> (Uuid, i32) {
        (self.report_id, self.variant)
    }

    pub(crate) fn place(&self) -> Last {
        (self.received_at, ReportId::from_uuid(self.report_id), from_row32(self.variant))
    }
}
