//! The rows that fix a report's moment and number its revisions.

use super::ReportOrigin;
use super::rows::truncate_name;
use crate::column::{HashColumn, ReportIdColumn, U32};
use crate::number::{from_row32, to_row32};
use crate::outbox::NeededSymbols;
use crate::requests::pauses::RETRY_BACKOFFS;
use crate::{Result, StoreError, TenantTx, Uuid};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::{ContentHash, ReportId};

/// A locked row of `report_keys`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRow {
    pub(crate) report_id: ReportId,
    pub(crate) variant: u32,
    pub(crate) content_hash: ContentHash,
    pub(crate) received_at: OffsetDateTime,
    pub(crate) latest_revision: u32,
    pub(crate) requested_revision: u32,
    pub(crate) requested_at: Option<OffsetDateTime>,
    /// When the outstanding request was sent first.
    pub(crate) asked_at: Option<OffsetDateTime>,
    /// The reprocess that made the outstanding request.
    pub(crate) reprocess: Option<Uuid>,
    pub(crate) deleted: bool,
}

impl KeyRow {
    /// Makes the row of a report that has no revision yet.
    fn new(
        report_id: ReportId,
        variant: u32,
        content_hash: ContentHash,
        received_at: OffsetDateTime,
    ) -> KeyRow {
        KeyRow {
            report_id,
            variant,
            content_hash,
            received_at,
            latest_revision: 0,
            requested_revision: 0,
            requested_at: None,
            asked_at: None,
            reprocess: None,
            deleted: false,
        }
    }

    /// Returns the part that distinguishes it from the tenant's other keys.
    pub(crate) fn report_and_variant(&self) -> (ReportId, u32) {
        (self.report_id, self.variant)
    }

    /// Returns the same in the types of the row.
    pub(crate) fn row_key(&self) -> (Uuid, i32) {
        (self.report_id.uuid(), to_row32(self.variant))
    }
}

/// The keys that the rest of the statement locks.
macro_rules! lock_keys {
    ($rest:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            KeyRow,
            r#"SELECT k.report_id AS "report_id: ReportIdColumn", k.variant AS "variant: U32",
                      k.content_hash AS "content_hash: HashColumn", k.received_at,
                      k.latest_revision AS "latest_revision: U32", k.requested_revision AS "requested_revision: U32",
                      k.requested_at, k.asked_at, k.reprocess_id AS reprocess, k.deleted_at IS NOT NULL AS "deleted!"
               FROM "# + $rest + " ORDER BY k.report_id, k.variant FOR UPDATE OF k",
            $($argument),+
        )
    };
}

/// Inserts the missing keys and locks all, in the order of `wanted`, which is sorted by id, has those of one
/// id in the order of the log, and names each pair once: variants get the same numbers however the log is cut
/// into batches. If an id comes with other bytes than before, both reports are kept, the later one as the
/// next variant, and all of that id are flagged.
pub(super) async fn insert_and_lock(
    tx: &mut TenantTx,
    wanted: &[(ReportId, ContentHash, OffsetDateTime)],
) -> Result<Vec<KeyRow>> {
    let mut found: BTreeMap<(ReportId, ContentHash), KeyRow> = BTreeMap::new();
    let of = |rows: Vec<KeyRow>| rows.into_iter().map(|row| ((row.report_id, row.content_hash), row));
    let not_in = |found: &BTreeMap<_, _>, reports: &[(ReportId, ContentHash, OffsetDateTime)]| {
        reports.iter().filter(|(id, hash, _)| !found.contains_key(&(*id, *hash))).copied().collect::<Vec<_>>()
    };
    found.extend(of(insert_first_variants(tx, wanted).await?));
    let known = not_in(&found, wanted);
    if !known.is_empty() {
        found.extend(of(lock_wanted(tx, &known).await?));
    }
    let new = not_in(&found, &known);
    if !new.is_empty() {
        // While the first variants are locked, no other transaction adds one. Variants that were added during
        // the wait exist now.
        found.extend(of(lock_wanted(tx, &new).await?));
        let new = not_in(&found, &new);
        found.extend(of(insert_further_variants(tx, &new).await?));
    }
    wanted
        .iter()
        .map(|(id, hash, _)| {
            found
                .remove(&(*id, *hash))
                .ok_or_else(|| StoreError::corrupt("report_keys", "a key that vanished"))
        })
        .collect()
}

/// Makes the first variant of each id that has none, and returns those that it made.
async fn insert_first_variants(
    tx: &mut TenantTx,
    wanted: &[(ReportId, ContentHash, OffsetDateTime)],
) -> Result<Vec<KeyRow>> {
    let mut first_of_id = wanted.to_vec();
    first_of_id.dedup_by_key(|(id, ..)| *id);
    let ids: Vec<Uuid> = first_of_id.iter().map(|(id, ..)| id.uuid()).collect();
    let hashes: Vec<Vec<u8>> = first_of_id.iter().map(|(_, hash, _)| hash.0.to_vec()).collect();
    let times: Vec<OffsetDateTime> = first_of_id.iter().map(|(.., at)| *at).collect();
    let (connection, tenant, _) = tx.parts();
    let made = sqlx::query!(
        r#"INSERT INTO report_keys (tenant, report_id, variant, content_hash, received_at, latest_revision)
         SELECT $1, w.report_id, 0, w.content_hash, w.received_at, 0
         FROM unnest($2::uuid[], $3::bytea[], $4::timestamptz[]) AS w (report_id, content_hash, received_at)
         ORDER BY w.report_id, w.received_at
         ON CONFLICT DO NOTHING
         RETURNING report_id AS "report_id: ReportIdColumn", content_hash AS "content_hash: HashColumn", received_at"#,
        tenant,
        &ids,
        &hashes,
        &times
    )
    .fetch_all(connection)
    .await?;
    Ok(made
        .into_iter()
        .map(|row| KeyRow::new(row.report_id.into(), 0, row.content_hash.into(), row.received_at))
        .collect())
}

/// Adds reports that came under the id of other reports, and flags those ids. The first variants have to be
/// locked.
async fn insert_further_variants(
    tx: &mut TenantTx,
    new: &[(ReportId, ContentHash, OffsetDateTime)],
) -> Result<Vec<KeyRow>> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let mut variants = next_variants(tx, new).await?;
    let number = |(id, hash, at): &(ReportId, ContentHash, OffsetDateTime)| {
        let next = variants.entry(*id).or_default();
        let variant = *next;
        *next += 1;
        KeyRow::new(*id, variant, *hash, *at)
    };
    let rows: Vec<KeyRow> = new.iter().map(number).collect();
    insert_variants(tx, &rows).await?;
    let ids: Vec<Uuid> = new.iter().map(|(id, ..)| id.uuid()).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys SET conflicted = true
         WHERE tenant = $1 AND report_id = ANY ($2) AND variant = 0 AND NOT conflicted",
        tenant,
        &ids
    )
    .execute(connection)
    .await?;
    Ok(rows)
}

async fn insert_variants(tx: &mut TenantTx, rows: &[KeyRow]) -> Result<()> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = rows.iter().map(KeyRow::row_key).unzip();
    let hashes: Vec<Vec<u8>> = rows.iter().map(|row| row.content_hash.0.to_vec()).collect();
    let times: Vec<OffsetDateTime> = rows.iter().map(|row| row.received_at).collect();
    let (connection, tenant, _) = tx.parts();
    // Each id's first variant is locked: no other transaction takes these numbers.
    sqlx::query!(
        "INSERT INTO report_keys (tenant, report_id, variant, content_hash, received_at, latest_revision, conflicted)
         SELECT $1, w.report_id, w.variant, w.content_hash, w.received_at, 0, true
         FROM unnest($2::uuid[], $3::integer[], $4::bytea[], $5::timestamptz[])
              AS w (report_id, variant, content_hash, received_at)",
        tenant,
        &ids,
        &variants,
        &hashes,
        &times
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks the existing keys of these reports, in the order of id and variant, and the first variant of each
/// id: only its holder adds variants. All other variants of an id stay unlocked.
async fn lock_wanted(
    tx: &mut TenantTx,
    wanted: &[(ReportId, ContentHash, OffsetDateTime)],
) -> Result<Vec<KeyRow>> {
    let ids: Vec<Uuid> = wanted.iter().map(|(id, ..)| id.uuid()).collect();
    let hashes: Vec<Vec<u8>> = wanted.iter().map(|(_, hash, _)| hash.0.to_vec()).collect();
    let (connection, tenant, _) = tx.parts();
    Ok(lock_keys!(
        "(SELECT w.report_id, 0 AS variant FROM unnest($2::uuid[]) AS w (report_id)
                 UNION
                 SELECT h.report_id, h.variant FROM unnest($2::uuid[], $3::bytea[]) AS w (report_id, content_hash)
                 JOIN report_keys h ON h.tenant = $1 AND h.report_id = w.report_id AND h.content_hash = w.content_hash
                ) AS p
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = p.report_id AND k.variant = p.variant",
        tenant,
        &ids,
        &hashes
    )
    .fetch_all(connection)
    .await?)
}

/// Returns the number that the next variant of each of these ids gets.
async fn next_variants(
    tx: &mut TenantTx,
    wanted: &[(ReportId, ContentHash, OffsetDateTime)],
) -> Result<BTreeMap<ReportId, u32>> {
    let ids: BTreeSet<Uuid> = wanted.iter().map(|(id, ..)| id.uuid()).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT w.report_id AS "report_id!",
                  (SELECT max(k.variant) FROM report_keys k WHERE k.tenant = $1 AND k.report_id = w.report_id) AS "last!"
           FROM unnest($2::uuid[]) AS w (report_id)"#,
        tenant,
        &ids
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (ReportId::from_uuid(row.report_id), from_row32(row.last) + 1)).collect())
}

/// Locks the existing keys of these reports, each named by its id and variant, in that order. All other
/// variants of an id stay unlocked.
pub(crate) async fn lock_known(tx: &mut TenantTx, reports: &[(Uuid, i32)]) -> Result<Vec<KeyRow>> {
    let unique: BTreeSet<(Uuid, i32)> = reports.iter().copied().collect();
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = unique.into_iter().unzip();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let (connection, tenant, _) = tx.parts();
    Ok(lock_keys!(
        "unnest($2::uuid[], $3::integer[]) AS w (report_id, variant)
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = w.report_id AND k.variant = w.variant",
        tenant,
        &ids,
        &variants
    )
    .fetch_all(connection)
    .await?)
}

/// The key of a report with a new revision.
pub(super) struct Advance<'a> {
    pub(super) report_id: ReportId,
    pub(super) variant: u32,
    pub(super) revision: u32,
    pub(super) ask_pending: bool,
    /// Symbols that could not be fetched, and that are retried by the clock; the clock stops while
    /// `ask_pending` is set.
    pub(super) retry: Vec<NeededSymbols>,
    /// The input record that brought the report first, if this is it.
    pub(super) origin: Option<&'a ReportOrigin>,
}

/// Records the new revisions. A request that one of them answers is over.
pub(super) async fn record_revisions(tx: &mut TenantTx, advanced: &[Advance<'_>]) -> Result<()> {
    if advanced.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = advanced.iter().map(|a| a.report_id.uuid()).collect();
    let variants: Vec<i32> = advanced.iter().map(|a| to_row32(a.variant)).collect();
    let revisions: Vec<i32> = advanced.iter().map(|a| to_row32(a.revision)).collect();
    let pending: Vec<bool> = advanced.iter().map(|a| a.ask_pending).collect();
    let needs: Vec<Option<Value>> =
        advanced.iter().map(|a| (!a.retry.is_empty()).then(|| json!(a.retry))).collect();
    let topics: Vec<Option<String>> =
        advanced.iter().map(|a| a.origin.map(|origin| truncate_name(&origin.topic))).collect();
    let partitions: Vec<Option<i32>> = advanced.iter().map(|a| a.origin.map(|o| o.partition)).collect();
    let offsets: Vec<Option<i64>> = advanced.iter().map(|a| a.origin.map(|o| o.offset)).collect();
    let indexes: Vec<Option<i32>> = advanced.iter().map(|a| a.origin.map(|o| o.index)).collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys k
         SET latest_revision = a.latest_revision, ask_pending = a.ask_pending,
             requested_at = CASE WHEN k.requested_revision > a.latest_revision THEN k.requested_at END,
             asked_at = CASE WHEN k.requested_revision > a.latest_revision THEN k.asked_at END,
             requested_needs = CASE WHEN k.requested_revision > a.latest_revision THEN k.requested_needs END,
             reprocess_id = CASE WHEN k.requested_revision > a.latest_revision THEN k.reprocess_id END,
             retry_needs = a.retry_needs,
             retry_at = CASE WHEN a.retry_needs IS NOT NULL AND NOT a.ask_pending THEN coalesce(k.retry_at, $3) END,
             retries = CASE WHEN a.retry_needs IS NULL OR k.retry_at IS NULL THEN 0 ELSE k.retries END,
             origin_topic = coalesce(k.origin_topic, a.origin_topic),
             origin_partition = CASE WHEN k.origin_topic IS NULL THEN a.origin_partition ELSE k.origin_partition END,
             origin_offset = CASE WHEN k.origin_topic IS NULL THEN a.origin_offset ELSE k.origin_offset END,
             origin_index = CASE WHEN k.origin_topic IS NULL THEN a.origin_index ELSE k.origin_index END
         FROM unnest($2::uuid[], $4::integer[], $5::integer[], $6::boolean[], $7::jsonb[], $8::text[], $9::integer[],
                     $10::bigint[], $11::integer[])
              AS a (report_id, variant, latest_revision, ask_pending, retry_needs, origin_topic, origin_partition,
                    origin_offset, origin_index)
         WHERE k.tenant = $1 AND k.report_id = a.report_id AND k.variant = a.variant",
        tenant,
        &ids,
        now + RETRY_BACKOFFS[0],
        &variants,
        &revisions,
        &pending,
        &needs as &[Option<Value>],
        &topics as &[Option<String>],
        &partitions as &[Option<i32>],
        &offsets as &[Option<i64>],
        &indexes as &[Option<i32>]
    )
    .execute(connection)
    .await?;
    Ok(())
}
