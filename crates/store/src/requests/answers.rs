//! Ends requests without a new revision. The number of statements does not depend on the number of answers.

use crate::number::to_row32;
use crate::outbox::NeededSymbols;
use crate::reports::RowKey;
use crate::reports::{KeyRow, NeedsByReport, lock_known, own_symbols, system_since};
use crate::requests::reprocess::{self, RequestEnds};
use crate::requests::{Ask, make_requests, read_needs, retries};
use crate::{ReprocessId, Result, SegmentId, TenantTx, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use time::{Duration, OffsetDateTime};
use unslide_model::ReportId;

/// How a request ended without a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// The symbols made nothing better.
    Unchanged,
    /// Nothing got better, and existing symbols could not be fetched: they are retried by the clock.
    FetchingFailed,
    /// The body was not at the place in the request, or may not be touched. If the report still exists, its
    /// body has moved: the request stays open, and is sent again with the new place.
    Gone,
    /// The body is not in this segment, or is damaged there. If it has moved from there, the request stays
    /// open; otherwise it is lost.
    Lost(SegmentId),
    /// The request is a dead letter.
    Dead,
    /// It cannot be asked for at all.
    Unsendable,
}

impl RequestOutcome {
    /// Returns true if newer symbols may end it otherwise, and the same symbols would not.
    fn depends_on_symbols(self) -> bool {
        matches!(self, RequestOutcome::Unchanged | RequestOutcome::Lost(_) | RequestOutcome::Dead)
    }

    /// Returns true if the body could not be read.
    fn lacks_body(self) -> bool {
        matches!(self, RequestOutcome::Gone | RequestOutcome::Lost(_))
    }
}

/// An answer to the request for a revision of a report.
#[derive(Clone, Copy, Debug)]
pub struct RequestAnswer {
    /// The report's id and variant.
    pub report: (ReportId, u32),
    /// The revision that was asked for.
    pub revision: u32,
    /// How the request ended.
    pub outcome: RequestOutcome,
    /// When the request was sent, as the answer says: several may have had the same number, and an answer to an
    /// earlier one is ignored.
    pub sent: OffsetDateTime,
}

impl RequestAnswer {
    fn can_close(&self, key: &KeyRow) -> bool {
        // Sent again under the same number it is the same request.
        key.requested_revision == self.revision
            && self.revision > key.latest_revision
            && key.asked_at.is_some_and(|first| first <= self.sent)
            && key.requested_at.is_some_and(|last| self.sent <= last)
    }
}

/// A request that an answer closes.
#[derive(Clone, Copy)]
struct Closed {
    key: KeyRow,
    outcome: RequestOutcome,
}

impl Closed {
    /// Returns true if it asks for symbols that come later, or can be fetched later.
    fn asks_again(&self) -> bool {
        (self.outcome.depends_on_symbols() || self.outcome == RequestOutcome::FetchingFailed)
            && !self.key.deleted
    }
}

/// Closes the request for `revision` of a report (its id and variant), as [`close_requests`] does.
pub async fn close_request(
    tx: &mut TenantTx,
    report: (ReportId, u32),
    revision: u32,
    outcome: RequestOutcome,
    sent: OffsetDateTime,
) -> Result<Option<RequestOutcome>> {
    let closed = close_requests(tx, &[RequestAnswer { report, revision, outcome, sent }]).await?;
    Ok(closed.into_iter().next().flatten())
}

/// Closes requests, and asks again if still newer symbols have come since. Returns for each answer how the
/// request was closed, if it closed one: of several answers to one request the first one closes it.
pub async fn close_requests(
    tx: &mut TenantTx,
    answers: &[RequestAnswer],
) -> Result<Vec<Option<RequestOutcome>>> {
    let rows: Vec<RowKey> =
        answers.iter().map(|answer| (answer.report.0.uuid(), to_row32(answer.report.1))).collect();
    let keys = lock_known(tx, &rows).await?;
    let keys: BTreeMap<(ReportId, u32), KeyRow> =
        keys.into_iter().map(|key| (key.report_and_variant(), key)).collect();
    let open = |answer: &RequestAnswer| keys.get(&answer.report).filter(|key| answer.can_close(key));
    let lacking: Vec<KeyRow> = answers
        .iter()
        .filter(|answer| answer.outcome.lacks_body())
        .filter_map(|answer| open(answer).copied())
        .collect();
    let segments = segments_of(tx, &lacking).await?;
    let (mut outcomes, mut closed, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for answer in answers {
        let found = open(answer).filter(|key| !seen.contains(&key.report_and_variant()));
        let ends = found.and_then(|key| {
            Some(Closed { key: *key, outcome: resolve_outcome(key, answer.outcome, &segments)? })
        });
        outcomes.push(ends.map(|ends| ends.outcome));
        if let Some(ends) = ends {
            seen.insert(ends.key.report_and_variant());
            closed.push(ends);
        }
    }
    if !closed.is_empty() {
        end_requests(tx, &closed).await?;
    }
    Ok(outcomes)
}

/// Returns how a request ends by this answer; `None` if it stays open, as the body has moved.
fn resolve_outcome(key: &KeyRow, answer: RequestOutcome, segments: &Segments) -> Option<RequestOutcome> {
    if !answer.lacks_body() {
        return Some(answer);
    }
    match segments.get(&key.row_key()).filter(|_| !key.deleted) {
        None => Some(RequestOutcome::Gone),
        Some(Some(segment)) if answer == RequestOutcome::Lost(*segment) => Some(answer),
        Some(_) => None,
    }
}

async fn end_requests(tx: &mut TenantTx, closed: &[Closed]) -> Result<()> {
    let asked = asked_for(tx, closed).await?;
    clear_requests(tx, closed).await?;
    ask_again(tx, closed, asked).await?;
    let mut ends: BTreeMap<ReprocessId, RequestEnds> = BTreeMap::new();
    for Closed { key, outcome } in closed {
        let Some(id) = key.reprocess else { continue };
        let ends = ends.entry(id).or_default();
        match outcome {
            RequestOutcome::Unchanged | RequestOutcome::FetchingFailed => ends.unchanged += 1,
            _ => ends.gone += 1,
        }
    }
    reprocess::count_ends(tx, &ends).await
}

fn rows_of<'c>(closed: impl Iterator<Item = &'c Closed>) -> (Vec<Uuid>, Vec<i32>) {
    closed.map(|closed| closed.key.row_key()).unzip()
}

/// Ends the outstanding requests of reports, which have then seen the symbols that the requests were about.
async fn clear_requests(tx: &mut TenantTx, closed: &[Closed]) -> Result<()> {
    let (ids, variants) = rows_of(closed.iter().filter(|closed| closed.outcome.depends_on_symbols()));
    let (connection, tenant, _) = tx.parts();
    if !ids.is_empty() {
        sqlx::query!(
            r#"UPDATE waits w SET seen_generation = greatest(w.seen_generation, (n.need ->> 'generation')::bigint)
               FROM unnest($2::uuid[], $3::integer[]) AS c (report_id, variant)
               JOIN report_keys k ON k.tenant = $1 AND k.report_id = c.report_id AND k.variant = c.variant
               CROSS JOIN LATERAL jsonb_array_elements(k.requested_needs) AS n (need)
               WHERE w.tenant = k.tenant AND w.received_at = ANY ($4) AND w.received_at = k.received_at AND w.report_id = k.report_id
                 AND w.variant = k.variant
                 AND w.debug_id = (n.need ->> 'debug_id')::uuid"#,
            tenant,
            &ids,
            &variants,
            &closed.iter().map(|closed| closed.key.received_at).collect::<Vec<_>>()
        )
        .execute(&mut *connection)
        .await?;
    }
    let (ids, variants) = rows_of(closed.iter());
    sqlx::query!(
        "UPDATE report_keys k SET requested_revision = k.latest_revision, requested_at = NULL, asked_at = NULL,
                                  requested_needs = NULL, reprocess_id = NULL
         FROM unnest($2::uuid[], $3::integer[]) AS c (report_id, variant)
         WHERE k.tenant = $1 AND k.report_id = c.report_id AND k.variant = c.variant",
        tenant,
        &ids,
        &variants
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Asks at once for symbols that have come since closed requests were sent, and by the clock for those that
/// could not be fetched. `asked` is what the requests were about.
async fn ask_again(tx: &mut TenantTx, closed: &[Closed], mut asked: NeedsByReport) -> Result<()> {
    let closed: Vec<&Closed> = closed.iter().filter(|closed| closed.asks_again()).collect();
    if closed.is_empty() {
        return Ok(());
    }
    let mut came = came_since(tx, &closed, &asked).await?;
    let (mut again, mut asks) = (Vec::new(), Vec::new());
    for Closed { key, outcome } in closed {
        let mut needs = came.remove(&key.row_key()).unwrap_or_default();
        let has_newer = !needs.is_empty();
        for need in asked.remove(&key.row_key()).unwrap_or_default() {
            if !needs.iter().any(|newer| (newer.debug_id, newer.system) == (need.debug_id, need.system)) {
                needs.push(need);
            }
        }
        if *outcome == RequestOutcome::FetchingFailed {
            again.push((key.row_key(), needs.clone()));
        }
        if has_newer {
            asks.push(Ask::for_key(&KeyRow { requested_at: None, ..*key }, needs));
        }
    }
    retries::schedule_retries(tx, &again).await?;
    make_requests(tx, &asks).await?;
    Ok(())
}

/// Returns the symbols that the outstanding requests of reports ask for.
async fn asked_for(tx: &mut TenantTx, closed: &[Closed]) -> Result<NeedsByReport> {
    let (ids, variants) = rows_of(closed.iter());
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT k.report_id, k.variant, k.requested_needs
         FROM unnest($2::uuid[], $3::integer[]) AS c (report_id, variant)
         JOIN report_keys k ON k.tenant = $1 AND k.report_id = c.report_id AND k.variant = c.variant",
        tenant,
        &ids,
        &variants
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| Ok(((row.report_id, row.variant), read_needs(row.report_id, row.requested_needs)?)))
        .collect()
}

/// By how much the clocks of two hosts may differ, and how long after its time symbols are published.
const CLOCK_SKEW_LIMIT: Duration = Duration::minutes(5);

/// Returns symbols that came while requests were on their way: their wake left out the reports with such
/// requests. Symbols of system images are found by their time, as their waits are not kept report by report.
/// Those that came shortly before may be known already; the answer then says that nothing got better.
async fn came_since(tx: &mut TenantTx, closed: &[&Closed], asked: &NeedsByReport) -> Result<NeedsByReport> {
    let reports: Vec<RowKey> = closed.iter().map(|closed| closed.key.row_key()).collect();
    let mut came = own_symbols(tx, &reports, true).await?;
    let since: Vec<(&KeyRow, OffsetDateTime)> = closed
        .iter()
        .filter_map(|closed| Some((&closed.key, closed.key.asked_at? - CLOCK_SKEW_LIMIT)))
        .collect();
    for (report, more) in system_since(tx, &since).await? {
        came.entry(report).or_default().extend(more);
    }
    let of = |need: &NeededSymbols| (need.debug_id, need.system);
    for (report, came) in &mut came {
        let asked = asked.get(report).map_or(&[][..], Vec::as_slice);
        came.retain(|need| !asked.iter().any(|a| of(a) == of(need) && a.generation >= need.generation));
    }
    Ok(came)
}

/// Segments of reports' bodies; `None` for a body in the database. Reports that the store does not have are
/// left out.
type Segments = BTreeMap<RowKey, Option<SegmentId>>;

async fn segments_of(tx: &mut TenantTx, keys: &[KeyRow]) -> Result<Segments> {
    if keys.is_empty() {
        return Ok(Segments::new());
    }
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = keys.iter().map(KeyRow::row_key).unzip();
    let received: Vec<OffsetDateTime> = keys.iter().map(|key| key.received_at).collect();
    let (connection, tenant, _) = tx.parts();
    // One look into the indexes for each, however many reports there are.
    let found = sqlx::query!(
        r#"SELECT a.report_id AS "report_id!", a.variant AS "variant!", s.segment AS "segment?: SegmentId"
           FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS a (received_at, report_id, variant)
           CROSS JOIN LATERAL (
               SELECT CASE WHEN b.report_id IS NULL THEN f.segment END AS segment
               FROM reports r
               LEFT JOIN report_bodies b ON b.tenant = r.tenant AND b.received_at = ANY ($2) AND b.received_at = r.received_at
                                        AND b.report_id = r.report_id AND b.variant = r.variant
               LEFT JOIN report_frames f ON f.tenant = r.tenant AND f.received_at = ANY ($2) AND f.received_at = r.received_at
                                        AND f.report_id = r.report_id AND f.variant = r.variant
               WHERE r.tenant = $1 AND r.received_at = ANY ($2) AND r.received_at = a.received_at AND r.report_id = a.report_id
                 AND r.variant = a.variant
               LIMIT 1) s"#,
        tenant,
        &received,
        &ids,
        &variants
    )
    .fetch_all(connection)
    .await?;
    Ok(found.into_iter().map(|row| ((row.report_id, row.variant), row.segment)).collect())
}
