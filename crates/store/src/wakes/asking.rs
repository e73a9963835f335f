//! From reports that were found to requests for them.

use super::Last;
use crate::number::to_row32;
use crate::outbox::Need;
use crate::reports::{KeyRow, lock_known};
use crate::requests::{self, Ask};
use crate::{Result, TenantTx, Uuid};
use time::{Date, OffsetDateTime};

/// A stored report that may have to be asked for.
pub(crate) struct Waiting {
    pub(crate) received_at: OffsetDateTime,
    pub(crate) report_id: Uuid,
    pub(crate) variant: i32,
    pub(crate) system_images: Vec<Uuid>,
}

/// The next `limit` reports of a day with one of these system images, the newest first.
pub(crate) async fn of_day(
    tx: &mut TenantTx,
    day: Date,
    debug_ids: &[Uuid],
    last: Option<Last>,
    limit: u32,
) -> Result<Vec<Waiting>> {
    let begin = day.midnight().assume_utc();
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        Waiting,
        "SELECT received_at, report_id, variant, system_images FROM reports
         WHERE tenant = $1 AND received_at >= $2 AND received_at < $3 AND system_images && $4
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

/// Locks the reports' keys, in the order in which everyone does.
pub(crate) async fn lock(tx: &mut TenantTx, found: &[Waiting]) -> Result<Vec<KeyRow>> {
    let reports: Vec<(Uuid, i32)> = found.iter().map(Waiting::key).collect();
    lock_known(tx, &reports).await
}

/// Asks for those of which `needs` says what for, as far as no answer is on its way. Gives how many
/// requests were made.
pub(crate) async fn ask_all(
    tx: &mut TenantTx,
    found: &[Waiting],
    needs: impl Fn(&Waiting) -> Option<Vec<Need>>,
) -> Result<u64> {
    let keys = lock(tx, found).await?;
    let wanted = |key: &KeyRow| {
        let of_key = |w: &&Waiting| w.key() == (key.report_id.uuid(), to_row32(key.variant));
        found.iter().find(of_key).and_then(&needs).map(|needs| Ask::about(key, needs))
    };
    let asks: Vec<Ask> = keys.iter().filter(|key| !key.deleted).filter_map(wanted).collect();
    let placed = requests::place(tx, &asks).await?;
    Ok(u64::try_from(placed.iter().flatten().count()).unwrap_or(u64::MAX))
}
