//! The reports of a day that lack system images, and the requests for them.

use super::{Arrived, Last};
use crate::history::{self, HistoryReport, HistorySearch, MoveWatch};
use crate::number::{from_row32, to_row, to_row32};
use crate::outbox::NeededSymbols;
use crate::reports::RowKey;
use crate::reports::{KeyRow, lock_known};
use crate::requests::{self, Ask};
use crate::segments::day_bounds;
use crate::{Result, TenantTx, Uuid};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};
use unslide_history::{HistoryFilter, HistoryOrder, HistoryPlace};
use unslide_model::{DebugId, ReportId};

/// A stored report that may have to be asked for.
pub(crate) struct WaitingReport {
    pub(crate) received_at: OffsetDateTime,
    pub(crate) report_id: Uuid,
    pub(crate) variant: i32,
    pub(crate) system_images: Vec<Uuid>,
}

impl WaitingReport {
    pub(crate) fn key(&self) -> RowKey {
        (self.report_id, self.variant)
    }

    pub(crate) fn cursor_position(&self) -> Last {
        (self.received_at, ReportId::from_uuid(self.report_id), from_row32(self.variant))
    }
}

/// Returns the last report of a page that `limit` has cut: another page follows.
pub(super) fn last_of_full(found: &[WaitingReport], limit: u32) -> Option<Last> {
    found
        .last()
        .filter(|_| found.len() >= usize::try_from(limit).unwrap_or(usize::MAX))
        .map(WaitingReport::cursor_position)
}

/// A day of which a report lacks some of these system images.
pub(super) struct LackingDay {
    pub(super) day: Date,
    pub(super) debug_ids: Vec<Uuid>,
}

/// Returns the newest such day for symbols that arrived: before a day, or that day too.
pub(super) async fn next_day(
    tx: &mut TenantTx,
    arrived: &[Arrived],
    before: Option<Date>,
    that_too: bool,
) -> Result<Option<LackingDay>> {
    let (ids, generations) = to_columns(arrived);
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        LackingDay,
        r#"SELECT w.day, array_agg(w.debug_id) AS "debug_ids!"
           FROM system_waits w
           JOIN unnest($2::uuid[], $3::bigint[]) AS n (debug_id, generation) ON n.debug_id = w.debug_id
           WHERE w.tenant = $1 AND w.seen_generation < n.generation
             AND ($4::date IS NULL OR w.day < $4 OR w.day = $4 AND $5)
           GROUP BY w.day ORDER BY w.day DESC LIMIT 1"#,
        tenant,
        &ids,
        &generations,
        before,
        that_too
    )
    .fetch_optional(connection)
    .await?)
}

/// The result of one page of a day.
pub(super) struct DayPage {
    pub(super) found: u64,
    pub(super) requested: u64,
    /// The position from which the day continues; `None` if it is done.
    pub(super) last: Option<Last>,
}

/// Asks for the next `limit` reports of a day that lack one of these symbols, the newest first, each once for
/// all that it lacks; `system` says whether they are the system's symbols. A day that is done is noted.
pub(super) async fn page_of_day(
    tx: &mut TenantTx,
    arrived: &[Arrived],
    system: bool,
    lacking: &LackingDay,
    last: Option<Last>,
    limit: u32,
) -> Result<DayPage> {
    let found = list_waiting_on_day(tx, lacking.day, &lacking.debug_ids, last, limit).await?;
    let newest: BTreeMap<Uuid, u64> = arrived.iter().map(|a| (a.debug_id.uuid(), a.generation)).collect();
    let requested = ask_all(tx, &found, |found| {
        let lacks = found.system_images.iter().filter(|id| lacking.debug_ids.contains(id));
        let need = |id: &Uuid| {
            let generation = *newest.get(id)?;
            Some(NeededSymbols { debug_id: DebugId::from_uuid(*id), generation, system })
        };
        Some(lacks.filter_map(need).collect())
    })
    .await?;
    let last = last_of_full(&found, limit);
    if last.is_none() {
        mark_seen(tx, arrived, lacking.day).await?;
    }
    Ok(DayPage { found: u64::try_from(found.len()).unwrap_or(u64::MAX), requested, last })
}

async fn mark_seen(tx: &mut TenantTx, arrived: &[Arrived], day: Date) -> Result<()> {
    let (ids, generations) = to_columns(arrived);
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE system_waits w SET seen_generation = n.generation
         FROM unnest($3::uuid[], $4::bigint[]) AS n (debug_id, generation)
         WHERE w.tenant = $1 AND w.day = $2 AND w.debug_id = n.debug_id AND w.seen_generation < n.generation",
        tenant,
        day,
        &ids,
        &generations
    )
    .execute(connection)
    .await?;
    Ok(())
}

pub(super) fn to_columns(arrived: &[Arrived]) -> (Vec<Uuid>, Vec<i64>) {
    arrived.iter().map(|a| (a.debug_id.uuid(), to_row(a.generation))).unzip()
}

/// Returns the next `limit` reports of a day with one of these system images and with a body, the newest first.
async fn list_waiting_on_day(
    tx: &mut TenantTx,
    day: Date,
    debug_ids: &[Uuid],
    last: Option<Last>,
    limit: u32,
) -> Result<Vec<WaitingReport>> {
    let mut watch = MoveWatch::begin(tx).await?;
    loop {
        // As with all pages over both: see `pages`.
        let moved = list_moved_on_day(tx, day, debug_ids, last, limit).await?;
        let stored = list_stored_on_day(tx, day, debug_ids, last, limit).await?;
        if watch.is_over(tx).await? {
            return Ok(history::merge_pages(stored, moved, limit, |one| Reverse(one.cursor_position())));
        }
    }
}

/// Returns those of them that are in the database.
async fn list_stored_on_day(
    tx: &mut TenantTx,
    day: Date,
    debug_ids: &[Uuid],
    last: Option<Last>,
    limit: u32,
) -> Result<Vec<WaitingReport>> {
    let begin = day.midnight().assume_utc();
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        WaitingReport,
        "SELECT received_at, report_id, variant, system_images FROM reports
         WHERE tenant = $1 AND received_at >= $2 AND received_at < $3 AND system_images && $4 AND body_kept IS NOT FALSE
           AND ($5::timestamptz IS NULL OR (received_at, report_id, variant) < ($5, $6::uuid, $7::integer))
         ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $8",
        tenant,
        begin,
        begin + time::Duration::DAY,
        debug_ids,
        last.map(|l| l.0),
        last.map(|l| l.1.uuid()),
        last.map(|l| to_row32(l.2)),
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Returns those of them that are in ClickHouse.
async fn list_moved_on_day(
    tx: &mut TenantTx,
    day: Date,
    debug_ids: &[Uuid],
    last: Option<Last>,
    limit: u32,
) -> Result<Vec<WaitingReport>> {
    let (begin, end) = day_bounds(day);
    let one_image = match debug_ids {
        [id] => Some(DebugId::from_uuid(*id)),
        // All rows of the day are looked at.
        _ => None,
    };
    let search = HistorySearch {
        filter: HistoryFilter {
            from: Some(begin),
            to: Some(end),
            system_image: one_image,
            ..HistoryFilter::default()
        },
        order: HistoryOrder::NewestFirst,
        after: last.map(|(received_at, report_id, variant)| HistoryPlace { received_at, report_id, variant }),
    };
    let lacks = |report: &HistoryReport| {
        report.body_kept != Some(false) && report.system_images.iter().any(|id| debug_ids.contains(id))
    };
    let found = history::find_moved(tx, search, limit, lacks).await?;
    let waiting = found.into_iter().map(|report| WaitingReport {
        received_at: report.received_at,
        report_id: report.report_id.uuid(),
        variant: to_row32(report.variant),
        system_images: report.system_images,
    });
    Ok(waiting.collect())
}

/// Locks the reports' keys, in the order in which everyone does.
pub(crate) async fn lock_report_keys(tx: &mut TenantTx, found: &[WaitingReport]) -> Result<Vec<KeyRow>> {
    let reports: Vec<RowKey> = found.iter().map(WaitingReport::key).collect();
    lock_known(tx, &reports).await
}

/// Requests those of `found` for which `needs` returns symbols, unless an answer is on its way. Returns the
/// number of requests made.
pub(crate) async fn ask_all(
    tx: &mut TenantTx,
    found: &[WaitingReport],
    needs: impl Fn(&WaitingReport) -> Option<Vec<NeededSymbols>>,
) -> Result<u64> {
    let keys = lock_report_keys(tx, found).await?;
    let wanted = |key: &KeyRow| {
        let of_key = |w: &&WaitingReport| w.key() == key.row_key();
        found.iter().find(of_key).and_then(&needs).map(|needs| Ask::for_key(key, needs))
    };
    let asks: Vec<Ask> = keys.iter().filter(|key| !key.deleted).filter_map(wanted).collect();
    let placed = requests::make_requests(tx, &asks).await?;
    Ok(u64::try_from(placed.iter().flatten().count()).unwrap_or(u64::MAX))
}
