//! Requests for a better revision of a stored report. The store alone gives out their numbers: one
//! more than the revision it has, and one request at a time.

use crate::number::{from_row, from_row32, to_row32};
use crate::outbox::{self, Message, Need};
use crate::reports::{KeyRow, Origin, lock_known, newer_of_system, newer_than_seen};
use crate::reprocess::{self, Ends};
use crate::segments::Body;
use crate::{Result, Store, StoreError, TenantTx, Uuid};
use std::collections::BTreeMap;
use time::{Duration, OffsetDateTime};
use unslide_model::{ReportId, TenantId};

/// How long an answer may take. After that the request is sent again, under the same number.
pub const PATIENCE: Duration = Duration::minutes(10);

/// A question about a report whose key this transaction has locked.
pub(crate) struct Ask {
    pub(crate) report_id: ReportId,
    pub(crate) variant: u32,
    pub(crate) latest_revision: u32,
    pub(crate) requested_revision: u32,
    pub(crate) requested_at: Option<OffsetDateTime>,
    pub(crate) needs: Vec<Need>,
}

impl Ask {
    pub(crate) fn about(key: &KeyRow, needs: Vec<Need>) -> Ask {
        Ask {
            report_id: key.report_id,
            variant: key.variant,
            latest_revision: key.latest_revision,
            requested_revision: key.requested_revision,
            requested_at: key.requested_at,
            needs,
        }
    }

    /// The number to ask for now; `None` while an answer is on its way, after which the question is
    /// asked anew.
    fn number(&self, now: OffsetDateTime) -> Option<u32> {
        match self.requested_at {
            Some(at) if self.requested_revision > self.latest_revision => {
                (now - at >= PATIENCE).then_some(self.requested_revision)
            }
            _ => Some(self.latest_revision + 1),
        }
    }
}

/// Makes the requests that may be made, and gives for each question the number asked for.
pub(crate) async fn place(tx: &mut TenantTx, asks: &[Ask]) -> Result<Vec<Option<u32>>> {
    let now = tx.now();
    let numbers: Vec<Option<u32>> = asks.iter().map(|ask| ask.number(now)).collect();
    let placed: Vec<(&Ask, u32)> =
        asks.iter().zip(&numbers).filter_map(|(ask, n)| Some((ask, (*n)?))).collect();
    if placed.is_empty() {
        return Ok(numbers);
    }
    let ids: Vec<Uuid> = placed.iter().map(|(ask, _)| ask.report_id.uuid()).collect();
    let variants: Vec<i32> = placed.iter().map(|(ask, _)| to_row32(ask.variant)).collect();
    let revisions: Vec<i32> = placed.iter().map(|(_, number)| to_row32(*number)).collect();
    let needs: std::result::Result<Vec<_>, _> =
        placed.iter().map(|(ask, _)| serde_json::to_value(&ask.needs)).collect();
    let needs = needs.map_err(|e| StoreError::corrupt("report_keys", e))?;
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys k
         SET requested_revision = a.revision, requested_at = $6, requested_needs = a.needs, ask_pending = false
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
            requested_at_micros: outbox::micros(now),
        })
        .collect();
    outbox::append_all(tx, &messages).await?;
    Ok(numbers)
}

/// How a request ended without a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The symbols made nothing better.
    Unchanged,
    /// The body was not where the request said, or may not be touched. Where the report is still
    /// there, its body has moved: the request stays open, and is sent again with the new place.
    Gone,
    /// It cannot be asked for at all.
    Unsendable,
}

/// Closes the request for `revision` of a report (its id and variant), and asks again where yet newer symbols have come
/// since. An answer that was given before the request was made is of an earlier one, and is passed
/// over. True where a request was closed.
///
/// # Errors
/// Where the database fails.
pub async fn answered(
    tx: &mut TenantTx,
    (report_id, variant): (ReportId, u32),
    revision: u32,
    answer: Answer,
    given_at: OffsetDateTime,
) -> Result<bool> {
    let keys = lock_known(tx, &[report_id.uuid()]).await?;
    let open = |key: &&KeyRow| {
        key.variant == variant
            && key.requested_revision == revision
            && revision > key.latest_revision
            && key.requested_at.is_some_and(|at| at <= given_at)
    };
    let Some(key) = keys.iter().find(open).copied() else { return Ok(false) };
    if answer == Answer::Gone && !key.deleted && is_there(tx, &key).await? {
        return Ok(false);
    }
    let (connection, tenant, _) = tx.parts();
    if answer == Answer::Unchanged {
        sqlx::query!(
            r#"UPDATE waits w SET seen_generation = greatest(w.seen_generation, (n.need ->> 'generation')::bigint)
               FROM report_keys k, jsonb_array_elements(k.requested_needs) AS n (need)
               WHERE k.tenant = $1 AND k.report_id = $2 AND k.variant = $3
                 AND w.tenant = k.tenant AND w.report_id = k.report_id AND w.variant = k.variant
                 AND w.debug_id = (n.need ->> 'debug_id')::uuid"#,
            tenant,
            report_id.uuid(),
            to_row32(key.variant)
        )
        .execute(&mut *connection)
        .await?;
    }
    sqlx::query!(
        "UPDATE report_keys SET requested_revision = latest_revision, requested_at = NULL, requested_needs = NULL,
                                reprocess_id = NULL
         WHERE tenant = $1 AND report_id = $2 AND variant = $3",
        tenant,
        report_id.uuid(),
        to_row32(key.variant)
    )
    .execute(connection)
    .await?;
    if answer == Answer::Unchanged && !key.deleted {
        let mut needs = newer_than_seen(tx, &[report_id.uuid()]).await?;
        if let Some(needs) = needs.remove(&(report_id.uuid(), to_row32(key.variant))) {
            place(tx, &[Ask::about(&KeyRow { requested_at: None, ..key }, needs)]).await?;
        }
    }
    if let Some(id) = key.reprocess {
        let ends = match answer {
            Answer::Unchanged => Ends { unchanged: 1, ..Ends::default() },
            _ => Ends { gone: 1, ..Ends::default() },
        };
        reprocess::count_ends(tx, &BTreeMap::from([(id, ends)])).await?;
    }
    Ok(true)
}

/// True where the store has the report.
async fn is_there(tx: &mut TenantTx, key: &KeyRow) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        "SELECT revision FROM reports WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4",
        tenant,
        key.received_at,
        key.report_id.uuid(),
        to_row32(key.variant)
    )
    .fetch_optional(connection)
    .await?;
    Ok(found.is_some())
}

/// Sends requests again that nobody has answered for [`PATIENCE`], and drops those whose report is
/// gone. Gives how many were sent; call again while that is `limit`.
///
/// # Errors
/// Where the database fails.
pub async fn resend_overdue(store: &Store, limit: u32) -> Result<u64> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!", report_id AS "report_id!" FROM unslide_requests_overdue($1, $2)"#,
        store.now() - PATIENCE,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    let mut sent = 0;
    for (tenant, ids) in by_tenant(rows.into_iter().map(|row| (row.tenant, row.report_id))) {
        let mut tx = store.tenant(&read_tenant(&tenant)?).await?;
        let keys = lock_known(&mut tx, &ids).await?;
        let (connection, slug, now) = tx.parts();
        let there = sqlx::query!(
            "SELECT k.report_id, k.variant, k.requested_needs FROM report_keys k
             JOIN reports r ON r.tenant = k.tenant AND r.received_at = k.received_at
                           AND r.report_id = k.report_id AND r.variant = k.variant
             WHERE k.tenant = $1 AND k.report_id = ANY ($2) AND k.deleted_at IS NULL",
            slug,
            &ids
        )
        .fetch_all(&mut *connection)
        .await?;
        let mut needs: BTreeMap<(Uuid, i32), Vec<Need>> = BTreeMap::new();
        for row in there {
            let read = row.requested_needs.map_or(Ok(Vec::new()), serde_json::from_value);
            let read = read.map_err(|e| StoreError::corrupt("report_keys", e))?;
            needs.insert((row.report_id, row.variant), read);
        }
        let overdue = |key: &&KeyRow| key.requested_at.is_some_and(|at| now - at >= PATIENCE);
        let (mut asks, mut gone) = (Vec::new(), Vec::new());
        let mut ends: BTreeMap<Uuid, Ends> = BTreeMap::new();
        for key in keys.iter().filter(overdue) {
            match needs.remove(&(key.report_id.uuid(), to_row32(key.variant))) {
                Some(needs) => asks.push(Ask::about(key, needs)),
                None => {
                    gone.push(key.report_id.uuid());
                    if let Some(id) = key.reprocess {
                        ends.entry(id).or_default().gone += 1;
                    }
                }
            }
        }
        sqlx::query!(
            "UPDATE report_keys SET requested_at = NULL, requested_needs = NULL, reprocess_id = NULL
             WHERE tenant = $1 AND report_id = ANY ($2) AND requested_at <= $3",
            slug,
            &gone,
            now - PATIENCE
        )
        .execute(connection)
        .await?;
        sent += place(&mut tx, &asks).await?.iter().flatten().count();
        reprocess::count_ends(&mut tx, &ends).await?;
        tx.commit().await?;
    }
    Ok(u64::try_from(sent).unwrap_or(u64::MAX))
}

/// Asks what a replay has put off, as far as newer revisions have not answered it. Gives how many
/// reports were looked at; call again while that is not 0.
///
/// # Errors
/// Where the database fails.
pub async fn ask_pending(store: &Store, limit: u32) -> Result<u64> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!", report_id AS "report_id!" FROM unslide_asks_pending($1)"#,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    let mut looked = 0;
    for (tenant, ids) in by_tenant(rows.into_iter().map(|row| (row.tenant, row.report_id))) {
        let mut tx = store.tenant(&read_tenant(&tenant)?).await?;
        let keys = lock_known(&mut tx, &ids).await?;
        let mut needs = newer_than_seen(&mut tx, &ids).await?;
        for (report, more) in newer_of_system(&mut tx, &ids).await? {
            needs.entry(report).or_default().extend(more);
        }
        let asks: Vec<Ask> = keys
            .iter()
            .filter(|key| !key.deleted)
            .filter_map(|key| {
                let needs = needs.remove(&(key.report_id.uuid(), to_row32(key.variant)))?;
                Some(Ask::about(key, needs))
            })
            .collect();
        let (connection, slug, _) = tx.parts();
        let done = sqlx::query!(
            "UPDATE report_keys SET ask_pending = false WHERE tenant = $1 AND report_id = ANY ($2) AND ask_pending",
            slug,
            &ids
        )
        .execute(connection)
        .await?;
        looked += done.rows_affected();
        place(&mut tx, &asks).await?;
        tx.commit().await?;
    }
    Ok(looked)
}

/// Ids by tenant, both in ascending order.
pub(crate) fn by_tenant(rows: impl Iterator<Item = (String, Uuid)>) -> BTreeMap<String, Vec<Uuid>> {
    let mut tenants: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
    for (tenant, id) in rows {
        tenants.entry(tenant).or_default().push(id);
    }
    for ids in tenants.values_mut() {
        ids.sort_unstable();
        ids.dedup();
    }
    tenants
}

pub(crate) fn read_tenant(slug: &str) -> Result<TenantId> {
    TenantId::new(slug).map_err(|e| StoreError::corrupt("report_keys", e))
}

/// A stored report, for the message that asks for it again.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The revision that the body is of.
    pub revision: u32,
    /// The enriched JSON's size in bytes.
    pub size: u64,
    /// The enriched JSON, or where it is.
    pub body: Body,
    /// The first record of the report's history.
    pub origin: Option<Origin>,
    /// The trace that the report travelled under.
    pub traceparent: Option<String>,
}

/// The body of a report that is asked for again; `None` where it is gone, and nothing is to be
/// sent.
///
/// # Errors
/// Where the database fails.
pub async fn source(tx: &mut TenantTx, report_id: ReportId, variant: u32) -> Result<Option<Source>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT r.revision, r.received_at, coalesce(b.size, f.size) AS "size!", b.body AS "body?",
                f.segment AS "segment?", f.at_offset AS "at_offset?", f.length AS "length?",
                r.origin_topic, r.origin_partition, r.origin_offset, r.traceparent
         FROM report_keys k
         JOIN reports r ON r.tenant = k.tenant AND r.received_at = k.received_at AND r.report_id = k.report_id
                       AND r.variant = k.variant
         LEFT JOIN report_bodies b ON b.tenant = k.tenant AND b.received_at = k.received_at
                                  AND b.report_id = k.report_id AND b.variant = k.variant
         LEFT JOIN report_frames f ON f.tenant = k.tenant AND f.received_at = k.received_at
                                  AND f.report_id = k.report_id AND f.variant = k.variant
         WHERE k.tenant = $1 AND k.report_id = $2 AND k.variant = $3 AND k.deleted_at IS NULL
           AND (b.report_id IS NOT NULL OR f.report_id IS NOT NULL)"#,
        tenant,
        report_id.uuid(),
        to_row32(variant)
    )
    .fetch_optional(connection)
    .await?;
    row.map(|row| {
        let origin = match (row.origin_topic, row.origin_partition, row.origin_offset) {
            (Some(topic), Some(partition), Some(offset)) => {
                Some(Origin { topic, partition, offset, index: 0 })
            }
            _ => None,
        };
        Ok(Source {
            revision: from_row32(row.revision),
            size: from_row(row.size),
            body: Body::read(row.body, row.received_at, (row.segment, row.at_offset, row.length))?,
            origin,
            traceparent: row.traceparent,
        })
    })
    .transpose()
}
