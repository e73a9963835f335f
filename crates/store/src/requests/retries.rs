//! Retries for existing symbols that could not be fetched, although the worker has tried for long. No event
//! announces that object storage works again, so their reports are requested by the clock, with growing
//! pauses, and then no more until an event comes.

pub use super::pauses::RETRY_BACKOFFS;

use crate::column::TenantColumn;
use crate::number::{from_row, to_row32};
use crate::outbox::NeededSymbols;
use crate::reports::RowKey;
use crate::reports::lock_known;
use crate::requests::{self, Ask, DueReport, FirstFailure, by_tenant};
use crate::{Result, Store, StoreError, TenantTx, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::{DebugId, Owner, TenantId};

struct Due {
    tries: usize,
    needs: Vec<NeededSymbols>,
}

/// Asks for reports that are due for their next try. Returns the number looked at; call again while that is
/// `limit`.
///
/// # Errors
/// The first failure; one tenant's or report's failure does not keep the others' reports.
pub async fn ask_due(store: &Store, limit: u32) -> Result<u64> {
    let due = sqlx::query_as!(
        DueReport,
        r#"SELECT tenant AS "tenant!: TenantColumn", report_id AS "report_id!", variant AS "variant!"
           FROM unslide_retries_due($1, $2)"#,
        store.now(),
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    let looked = u64::try_from(due.len()).unwrap_or(u64::MAX);
    let mut failures = FirstFailure::default();
    for (tenant, reports) in by_tenant(due) {
        if let Err(error) = request_retries(store, &tenant, &reports, &mut failures).await {
            failures.record_failure(&tenant, error)?;
        }
    }
    failures.into_result(looked)
}

/// Asks for those of one tenant.
async fn request_retries(
    store: &Store,
    tenant: &TenantId,
    reports: &[RowKey],
    failures: &mut FirstFailure,
) -> Result<()> {
    let mut tx = store.tenant(tenant).await?;
    let keys = lock_known(&mut tx, reports).await?;
    let mut wanted = due_of(&mut tx, tenant, reports, failures).await?;
    let mut asks: Vec<Ask> = Vec::new();
    let mut tries: Vec<usize> = Vec::new();
    for key in keys.iter().filter(|key| !key.deleted) {
        let Some(due) = wanted.remove(&key.row_key()) else { continue };
        asks.push(Ask::for_key(key, due.needs));
        tries.push(due.tries);
    }
    let placed = requests::make_requests(&mut tx, &asks).await?;
    let now = tx.now();
    let next: Vec<(usize, Option<OffsetDateTime>)> = tries
        .into_iter()
        .zip(&placed)
        .map(|(tries, placed)| match placed {
            Some(_) => (tries + 1, RETRY_BACKOFFS.get(tries + 1).map(|pause| now + *pause)),
            // An answer is on its way, which may be the expected one.
            None => (tries, Some(now + RETRY_BACKOFFS[0])),
        })
        .collect();
    update_schedule(&mut tx, &asks, &next).await?;
    tx.commit().await
}

/// Returns those of these reports that are due, with the present generations of the symbols that they need.
async fn due_of(
    tx: &mut TenantTx,
    tenant: &TenantId,
    reports: &[RowKey],
    failures: &mut FirstFailure,
) -> Result<BTreeMap<RowKey, Due>> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = reports.iter().copied().unzip();
    let (connection, slug, now) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT k.report_id, k.variant, k.retries, k.retry_needs AS "retry_needs!"
           FROM unnest($2::uuid[], $4::integer[]) AS r (report_id, variant)
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = r.report_id AND k.variant = r.variant
           WHERE k.retry_at <= $3 AND k.retry_needs IS NOT NULL"#,
        slug,
        &ids,
        now,
        &variants
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut due: BTreeMap<RowKey, Due> = BTreeMap::new();
    for row in rows {
        let needs = requests::read_needs_or_none(failures, tenant, row.report_id, Some(row.retry_needs))?;
        let tries = usize::try_from(row.retries).unwrap_or_default();
        due.insert((row.report_id, row.variant), Due { tries, needs });
    }
    let wanted: BTreeSet<Uuid> = due.values().flat_map(|d| &d.needs).map(|n| n.debug_id.uuid()).collect();
    let wanted: Vec<Uuid> = wanted.into_iter().collect();
    let slots = sqlx::query!(
        r#"SELECT debug_id, generation, tenant <> $1 AS "system!" FROM symbol_slots
           WHERE tenant IN ($1, $3) AND debug_id = ANY ($2) AND quality > 0"#,
        slug,
        &wanted,
        Owner::System.as_str()
    )
    .fetch_all(connection)
    .await?;
    let newest: BTreeMap<(DebugId, bool), u64> = slots
        .into_iter()
        .map(|slot| ((DebugId::from_uuid(slot.debug_id), slot.system), from_row(slot.generation)))
        .collect();
    for need in due.values_mut().flat_map(|due| &mut due.needs) {
        let of = |system: bool| newest.get(&(need.debug_id, system)).map(|generation| (*generation, system));
        let answers = need.system.then(|| of(true)).flatten().or_else(|| of(false));
        (need.generation, need.system) = answers.unwrap_or((0, false));
    }
    Ok(due)
}

/// Schedules retries of symbols that could not be fetched for reports. If a retry is scheduled already, or
/// the same symbols were retried before, that schedule continues; once it has used up its pauses, there are
/// no more retries.
pub(crate) async fn schedule_retries(
    tx: &mut TenantTx,
    unfetched: &[(RowKey, Vec<NeededSymbols>)],
) -> Result<()> {
    if unfetched.is_empty() {
        return Ok(());
    }
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = unfetched.iter().map(|(report, _)| *report).unzip();
    let needs: std::result::Result<Vec<_>, _> =
        unfetched.iter().map(|(_, needs)| serde_json::to_value(needs)).collect();
    let needs = needs.map_err(|e| StoreError::corrupt("report_keys", e))?;
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys k
         SET retry_needs = u.needs,
             retries = CASE WHEN k.retry_at IS NOT NULL OR k.retry_needs @> u.needs THEN k.retries ELSE 0 END,
             retry_at = CASE WHEN k.retry_at IS NOT NULL OR k.retry_needs @> u.needs THEN k.retry_at ELSE $5 END
         FROM unnest($2::uuid[], $3::integer[], $4::jsonb[]) AS u (report_id, variant, needs)
         WHERE k.tenant = $1 AND k.report_id = u.report_id AND k.variant = u.variant",
        tenant,
        &ids,
        &variants,
        &needs,
        now + RETRY_BACKOFFS[0]
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn update_schedule(
    tx: &mut TenantTx,
    asks: &[Ask],
    next: &[(usize, Option<OffsetDateTime>)],
) -> Result<()> {
    let ids: Vec<Uuid> = asks.iter().map(|ask| ask.report_id.uuid()).collect();
    let variants: Vec<i32> = asks.iter().map(|ask| to_row32(ask.variant)).collect();
    let tries: Vec<i32> = next.iter().map(|(tries, _)| i32::try_from(*tries).unwrap_or(i32::MAX)).collect();
    let times: Vec<Option<OffsetDateTime>> = next.iter().map(|(_, at)| *at).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys k SET retries = n.tries, retry_at = n.at
         FROM unnest($2::uuid[], $3::integer[], $4::integer[], $5::timestamptz[]) AS n (report_id, variant, tries, at)
         WHERE k.tenant = $1 AND k.report_id = n.report_id AND k.variant = n.variant",
        tenant,
        &ids,
        &variants,
        &tries,
        &times as &[Option<OffsetDateTime>]
    )
    .execute(connection)
    .await?;
    Ok(())
}
