//! Requests for a better revision of a stored report. Only the store assigns their numbers: one more than the
//! revision it has, and one request at a time.

mod answers;
mod first_failure;
pub(crate) mod pauses;
pub mod reprocess;
pub mod retries;
mod sources;
pub mod wakes;

pub use answers::{RequestAnswer, RequestOutcome, close_request, close_requests};
pub use sources::{RequestSource, find_sources};

pub(crate) use first_failure::FirstFailure;

use crate::column::TenantColumn;
use crate::history;
use crate::number::to_row32;
use crate::outbox::{self, Message, NeededSymbols};
use crate::reports::RowKey;
use crate::reports::{KeyRow, NeedsByReport, find_arrival_times, lock_known, newer_of_system, own_symbols};
use crate::{Result, Store, StoreError, TenantTx, Uuid};
use std::collections::BTreeMap;
use time::{Duration, OffsetDateTime};
use unslide_model::{ReportId, TenantId};

/// How long an answer may take. After that the request is sent again, under the same number.
pub const ANSWER_TIMEOUT: Duration = Duration::minutes(10);
/// The longest pause before a request is sent again.
const LONGEST_PATIENCE: Duration = Duration::DAY;

/// A request for a new revision of a report. This transaction has locked the report's key.
pub(crate) struct Ask {
    pub(crate) report_id: ReportId,
    pub(crate) variant: u32,
    pub(crate) latest_revision: u32,
    pub(crate) requested_revision: u32,
    pub(crate) requested_at: Option<OffsetDateTime>,
    pub(crate) needs: Vec<NeededSymbols>,
    /// The report's row is in ClickHouse.
    pub(crate) is_moved: bool,
}

impl Ask {
    pub(crate) fn for_key(key: &KeyRow, needs: Vec<NeededSymbols>) -> Ask {
        Ask {
            report_id: key.report_id,
            variant: key.variant,
            latest_revision: key.latest_revision,
            requested_revision: key.requested_revision,
            requested_at: key.requested_at,
            needs,
            is_moved: key.history_version.is_some(),
        }
    }

    /// Returns the revision to request now; `None` while an answer is on its way, after which the request is
    /// made again.
    fn next_revision(&self, now: OffsetDateTime) -> Option<u32> {
        match self.requested_at {
            Some(at) if self.requested_revision > self.latest_revision => {
                (now - at >= ANSWER_TIMEOUT).then_some(self.requested_revision)
            }
            _ => Some(self.latest_revision + 1),
        }
    }
}

/// Makes the requests that are due, and returns for each the requested revision.
pub(crate) async fn make_requests(tx: &mut TenantTx, asks: &[Ask]) -> Result<Vec<Option<u32>>> {
    let now = tx.now();
    let numbers: Vec<Option<u32>> = asks.iter().map(|ask| ask.next_revision(now)).collect();
    let placed: Vec<(&Ask, u32)> =
        asks.iter().zip(&numbers).filter_map(|(ask, n)| Some((ask, (*n)?))).collect();
    if placed.is_empty() {
        return Ok(numbers);
    }
    // Until the answer comes, the row stays in the database.
    let moved = placed.iter().filter(|(ask, _)| ask.is_moved);
    let moved = moved.map(|(ask, _)| (ask.report_id.uuid(), to_row32(ask.variant)));
    history::bring_back_reports(tx, moved.collect()).await?;
    let ids: Vec<Uuid> = placed.iter().map(|(ask, _)| ask.report_id.uuid()).collect();
    let variants: Vec<i32> = placed.iter().map(|(ask, _)| to_row32(ask.variant)).collect();
    let revisions: Vec<i32> = placed.iter().map(|(_, number)| to_row32(*number)).collect();
    let needs: std::result::Result<Vec<_>, _> =
        placed.iter().map(|(ask, _)| serde_json::to_value(&ask.needs)).collect();
    let needs = needs.map_err(|e| StoreError::corrupt("report_keys", e))?;
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys k
         SET requested_revision = a.revision, requested_at = $6, requested_needs = a.needs, ask_pending = false,
             asked_at = CASE WHEN k.requested_revision = a.revision AND k.requested_at IS NOT NULL
                                  AND k.requested_needs @> a.needs
                             THEN k.asked_at ELSE $6 END
         FROM unnest($2::uuid[], $3::integer[], $4::integer[], $5::jsonb[]) AS a (report_id, variant, revision, needs)
         WHERE k.tenant = $1 AND k.report_id = a.report_id AND k.variant = a.variant",
        tenant,
        &ids,
        &variants,
        &revisions,
        &needs,
        now
    )
    .execute(connection)
    .await?;
    let messages: Vec<Message> = placed
        .into_iter()
        .map(|(ask, revision)| Message::Resymbolicate {
            report_id: ask.report_id,
            variant: ask.variant,
            revision,
            supersedes: ask.latest_revision,
            needs: ask.needs.clone(),
            requested_at_micros: outbox::to_micros(now),
        })
        .collect();
    outbox::append_all(tx, &messages).await?;
    Ok(numbers)
}

fn read_needs(report_id: Uuid, needs: Option<serde_json::Value>) -> Result<Vec<NeededSymbols>> {
    let read = needs.map_or(Ok(Vec::new()), serde_json::from_value);
    read.map_err(|e| StoreError::corrupt("report_keys", format!("the needs of report {report_id}: {e}")))
}

/// Does the same. If the needs cannot be read, the report is requested without any: the answer then comes from
/// the symbols that the worker knows of.
fn read_needs_or_none(
    failures: &mut FirstFailure,
    tenant: &TenantId,
    report_id: Uuid,
    needs: Option<serde_json::Value>,
) -> Result<Vec<NeededSymbols>> {
    read_needs(report_id, needs).or_else(|error| {
        failures.record_failure(tenant, error)?;
        Ok(Vec::new())
    })
}

/// Sends requests again that had no answer for [`ANSWER_TIMEOUT`], at most `limit` of them, and drops requests of
/// deleted reports. Each pause is as long as all before it together: if the workers are only behind, they
/// don't get the same request again and again. Returns the number sent.
///
/// # Errors
/// The first failure; one tenant's or report's failure does not keep the others' requests.
pub async fn resend_overdue(store: &Store, limit: u32) -> Result<u64> {
    let now = store.now();
    let due = sqlx::query_as!(
        DueReport,
        r#"SELECT tenant AS "tenant!: TenantColumn", report_id AS "report_id!", variant AS "variant!"
           FROM unslide_requests_overdue($1, $2, $3, $4)"#,
        now,
        now - ANSWER_TIMEOUT,
        now - LONGEST_PATIENCE,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    let (mut sent, mut failures) = (0, FirstFailure::default());
    for (tenant, reports) in by_tenant(due) {
        match resend_for_tenant(store, &tenant, &reports, &mut failures).await {
            Ok(requests) => sent += requests,
            Err(error) => failures.record_failure(&tenant, error)?,
        }
    }
    failures.into_result(u64::try_from(sent).unwrap_or(u64::MAX))
}

/// Sends the overdue requests of one tenant among these reports again. Returns their number.
async fn resend_for_tenant(
    store: &Store,
    tenant: &TenantId,
    reports: &[RowKey],
    failures: &mut FirstFailure,
) -> Result<usize> {
    let mut tx = store.tenant(tenant).await?;
    let keys = lock_known(&mut tx, reports).await?;
    let mut needs = still_needed(&mut tx, tenant, reports, failures).await?;
    let now = tx.now();
    let (mut asks, mut gone) = (Vec::new(), Vec::new());
    for key in keys.iter().filter(|key| is_overdue(key, now)) {
        match needs.remove(&key.row_key()) {
            Some(needs) => asks.push(Ask::for_key(key, needs)),
            None => gone.push(*key),
        }
    }
    drop_requests(&mut tx, &gone).await?;
    let sent = make_requests(&mut tx, &asks).await?.iter().flatten().count();
    reprocess::count_ends(&mut tx, &reprocess::count_deleted(&gone)).await?;
    tx.commit().await?;
    Ok(sent)
}

/// Returns true if the outstanding request of a report is to be sent again. `unslide_requests_overdue`
/// decides alike.
fn is_overdue(key: &KeyRow, now: OffsetDateTime) -> bool {
    let Some(last) = key.requested_at else { return false };
    let waited = key.asked_at.map_or(Duration::ZERO, |first| last - first);
    now - last >= ANSWER_TIMEOUT && (now - last >= waited || now - last >= LONGEST_PATIENCE)
}

/// Returns the symbols that the outstanding requests of these reports ask for, as far as the reports still
/// exist.
async fn still_needed(
    tx: &mut TenantTx,
    tenant: &TenantId,
    reports: &[RowKey],
    failures: &mut FirstFailure,
) -> Result<NeedsByReport> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = reports.iter().copied().unzip();
    let times = find_arrival_times(tx, &ids).await?;
    let (connection, slug, _) = tx.parts();
    let there = sqlx::query!(
        "SELECT k.report_id, k.variant, k.requested_needs
         FROM unnest($2::uuid[], $3::integer[]) AS o (report_id, variant)
         JOIN report_keys k ON k.tenant = $1 AND k.report_id = o.report_id AND k.variant = o.variant
         CROSS JOIN LATERAL (
             SELECT FROM reports r
             WHERE r.tenant = $1 AND r.received_at = ANY ($4) AND r.received_at = k.received_at AND r.report_id = k.report_id
               AND r.variant = k.variant
             LIMIT 1) r
         WHERE k.deleted_at IS NULL",
        slug,
        &ids,
        &variants,
        &times
    )
    .fetch_all(connection)
    .await?;
    let mut needed = NeedsByReport::new();
    for row in there {
        let needs = read_needs_or_none(failures, tenant, row.report_id, row.requested_needs)?;
        needed.insert((row.report_id, row.variant), needs);
    }
    Ok(needed)
}

/// Drops the outstanding requests of reports that are gone.
async fn drop_requests(tx: &mut TenantTx, gone: &[KeyRow]) -> Result<()> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = gone.iter().map(KeyRow::row_key).unzip();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys k
         SET requested_at = NULL, asked_at = NULL, requested_needs = NULL, reprocess_id = NULL
         FROM unnest($2::uuid[], $3::integer[]) AS g (report_id, variant)
         WHERE k.tenant = $1 AND k.report_id = g.report_id AND k.variant = g.variant",
        tenant,
        &ids,
        &variants
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Asks what a replay has put off, as far as newer revisions have not answered it, and lets the clock
/// begin for what could not be fetched. Returns the number of
/// reports looked at; call again while that is not 0.
///
/// # Errors
/// The first failure; one tenant's does not keep the others' reports.
pub async fn ask_pending(store: &Store, limit: u32) -> Result<u64> {
    let due = sqlx::query_as!(
        DueReport,
        r#"SELECT tenant AS "tenant!: TenantColumn", report_id AS "report_id!", variant AS "variant!"
           FROM unslide_asks_pending($1)"#,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    let (mut looked, mut failures) = (0, FirstFailure::default());
    for (tenant, reports) in by_tenant(due) {
        match ask_put_off(store, &tenant, &reports).await {
            Ok(reports) => looked += reports,
            Err(error) => failures.record_failure(&tenant, error)?,
        }
    }
    failures.into_result(looked)
}

/// Asks what a replay has put off of these reports of one tenant. Returns the number of reports looked at.
async fn ask_put_off(store: &Store, tenant: &TenantId, reports: &[RowKey]) -> Result<u64> {
    let mut tx = store.tenant(tenant).await?;
    let keys = lock_known(&mut tx, reports).await?;
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = reports.iter().copied().unzip();
    let mut needs = own_symbols(&mut tx, reports, true).await?;
    for (report, more) in newer_of_system(&mut tx, reports).await? {
        needs.entry(report).or_default().extend(more);
    }
    let asks: Vec<Ask> = keys
        .iter()
        .filter(|key| !key.deleted)
        .filter_map(|key| {
            let needs = needs.remove(&key.row_key())?;
            Some(Ask::for_key(key, needs))
        })
        .collect();
    let (connection, slug, now) = tx.parts();
    let done = sqlx::query!(
        "UPDATE report_keys k
             SET ask_pending = false,
                 retry_at = CASE WHEN k.retry_needs IS NOT NULL THEN coalesce(k.retry_at, $3) END
             FROM unnest($2::uuid[], $4::integer[]) AS a (report_id, variant)
             WHERE k.tenant = $1 AND k.report_id = a.report_id AND k.variant = a.variant AND k.ask_pending",
        slug,
        &ids,
        now + retries::RETRY_BACKOFFS[0],
        &variants
    )
    .execute(connection)
    .await?;
    make_requests(&mut tx, &asks).await?;
    tx.commit().await?;
    Ok(done.rows_affected())
}

/// A report, as functions that look across tenants name it.
pub(crate) struct DueReport {
    pub(crate) tenant: TenantId,
    pub(crate) report_id: Uuid,
    pub(crate) variant: i32,
}

/// Reports, by their ids and variants, of each tenant; all in ascending order.
pub(crate) fn by_tenant(rows: Vec<DueReport>) -> BTreeMap<TenantId, Vec<RowKey>> {
    let mut tenants: BTreeMap<TenantId, Vec<RowKey>> = BTreeMap::new();
    for DueReport { tenant, report_id, variant } in rows {
        tenants.entry(tenant).or_default().push((report_id, variant));
    }
    for reports in tenants.values_mut() {
        reports.sort_unstable();
        reports.dedup();
    }
    tenants
}
