//! The rows that fix a report's moment and number its revisions.

use super::ReportOrigin;
use super::rows::truncate_name;
use crate::column::{HashColumn, Nullable, ReportIdColumn, U32};
use crate::number::{from_row32, to_row32};
use crate::outbox::NeededSymbols;
use crate::requests::pauses::RETRY_BACKOFFS;
use crate::{ReprocessId, Result, StoreError, TenantTx, Uuid};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::{ContentHash, ReportId};

/// A report by its id and variant, in the types of its row.
pub(crate) type RowKey = (Uuid, i32);

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
    pub(crate) reprocess: Option<ReprocessId>,
    pub(crate) deleted: bool,
    /// The version of the row in ClickHouse, if it has moved there.
    pub(crate) history_version: Option<u32>,
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
            history_version: None,
        }
    }

    /// Returns the part that distinguishes it from the tenant's other keys.
    pub(crate) fn report_and_variant(&self) -> (ReportId, u32) {
        (self.report_id, self.variant)
    }

    /// Returns the same in the types of the row.
    pub(crate) fn row_key(&self) -> RowKey {
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
                      k.requested_at, k.asked_at, k.reprocess_id AS "reprocess: ReprocessId", k.deleted_at IS NOT NULL AS "deleted!",
                      k.history_version AS "history_version!: Nullable<U32>"
               FROM "# + $rest + " ORDER BY k.report_id, k.variant FOR UPDATE OF k",
            $($argument),+
        )
    };
}

/// The key of a report, as it is stored if the report is new.
pub(super) struct NewReportKey<'a> {
    pub(super) report_id: ReportId,
    pub(super) content_hash: ContentHash,
    pub(super) received_at: OffsetDateTime,
    /// The newest revision of the batch.
    pub(super) revision: u32,
    /// Symbols that could not be fetched, and that are retried by the clock.
    pub(super) retry: Vec<NeededSymbols>,
    /// The input record that brought the report first, if this is it.
    pub(super) origin: Option<&'a ReportOrigin>,
}

impl NewReportKey<'_> {
    fn content(&self) -> (ReportId, ContentHash) {
        (self.report_id, self.content_hash)
    }
}

/// Inserts the missing keys and locks all, in the order of `wanted`, which is sorted by id, has those of one
/// id in the order of the log, and names each pair once: variants get the same numbers however the log is cut
/// into batches. If an id comes with other bytes than before, both reports are kept, the later one as the
/// next variant, and all of that id are flagged.
///
/// A key that is inserted has its final values already. The returned row is that of a report without a revision.
pub(super) async fn insert_and_lock(tx: &mut TenantTx, wanted: &[NewReportKey<'_>]) -> Result<Vec<KeyRow>> {
    hold_month(tx).await?;
    let mut found: BTreeMap<(ReportId, ContentHash), KeyRow> = BTreeMap::new();
    // A key that this transaction has made stays one of a report without a revision.
    let add = |found: &mut BTreeMap<(ReportId, ContentHash), KeyRow>, rows: Vec<KeyRow>| {
        for row in rows {
            found.entry((row.report_id, row.content_hash)).or_insert(row);
        }
    };
    let mut firsts: Vec<(&NewReportKey<'_>, u32)> = wanted.iter().map(|key| (key, 0)).collect();
    firsts.dedup_by_key(|(key, _)| key.report_id);
    add(&mut found, insert_keys(tx, &firsts).await?);
    let known: Vec<&NewReportKey<'_>> =
        wanted.iter().filter(|key| !found.contains_key(&key.content())).collect();
    if !known.is_empty() {
        add(&mut found, lock_wanted(tx, &known).await?);
    }
    let new: Vec<&NewReportKey<'_>> =
        known.iter().filter(|key| !found.contains_key(&key.content())).copied().collect();
    if !new.is_empty() {
        // While the first variants are locked, no other transaction adds one. Variants that were added during
        // the wait exist now.
        add(&mut found, lock_wanted(tx, &new).await?);
        let new: Vec<&NewReportKey<'_>> =
            new.into_iter().filter(|key| !found.contains_key(&key.content())).collect();
        add(&mut found, insert_further_variants(tx, &new).await?);
    }
    wanted
        .iter()
        .map(|key| {
            found
                .remove(&key.content())
                .ok_or_else(|| StoreError::corrupt("report_keys", "a key that vanished"))
        })
        .collect()
}

/// Keeps the month that keys are stored under until the transaction ends: all transactions that store keys at the same
/// time store them in one partition, whose primary key lets one of them claim an id. Keys of earlier months are
/// committed, so that the next statement sees them.
async fn hold_month(tx: &mut TenantTx) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock_shared(hashtextextended('key month', 0))")
        .execute(tx.parts().0)
        .await?;
    Ok(())
}

/// Inserts keys under these variants, and returns those that it made: not the variants that are there, nor the
/// bytes of a further variant that is there.
async fn insert_keys(tx: &mut TenantTx, keys: &[(&NewReportKey<'_>, u32)]) -> Result<Vec<KeyRow>> {
    let ids: Vec<Uuid> = keys.iter().map(|(key, _)| key.report_id.uuid()).collect();
    let variants: Vec<i32> = keys.iter().map(|(_, variant)| to_row32(*variant)).collect();
    let hashes: Vec<Vec<u8>> = keys.iter().map(|(key, _)| key.content_hash.0.to_vec()).collect();
    let times: Vec<OffsetDateTime> = keys.iter().map(|(key, _)| key.received_at).collect();
    let revisions: Vec<i32> = keys.iter().map(|(key, _)| to_row32(key.revision)).collect();
    let needs: Vec<Option<Value>> = keys.iter().map(|(key, _)| encode_needs(&key.retry)).collect();
    let origins = OriginColumns::from_origins(keys.iter().map(|(key, _)| key.origin));
    let (connection, tenant, now) = tx.parts();
    let made = sqlx::query!(
        r#"INSERT INTO report_keys (tenant, report_id, variant, stored_month, content_hash, received_at, latest_revision,
                                    conflicted, retry_needs, retry_at, origin_topic, origin_partition, origin_offset,
                                    origin_index)
           SELECT $1, w.report_id, w.variant, (SELECT unslide_key_month()), w.content_hash, w.received_at, w.revision, w.variant > 0,
                  w.retry_needs, CASE WHEN w.retry_needs IS NOT NULL THEN $8::timestamptz END, w.origin_topic,
                  w.origin_partition, w.origin_offset, w.origin_index
           FROM unnest($2::uuid[], $3::integer[], $4::bytea[], $5::timestamptz[], $6::integer[], $7::jsonb[], $9::text[],
                       $10::integer[], $11::bigint[], $12::integer[])
                AS w (report_id, variant, content_hash, received_at, revision, retry_needs, origin_topic, origin_partition,
                      origin_offset, origin_index)
           WHERE NOT EXISTS (SELECT FROM report_keys k
                             WHERE k.tenant = $1 AND k.report_id = w.report_id AND k.variant = w.variant)
             AND NOT EXISTS (SELECT FROM report_keys k
                             WHERE k.tenant = $1 AND k.report_id = w.report_id AND k.variant > 0
                               AND k.content_hash = w.content_hash)
           ORDER BY w.report_id, w.variant
           ON CONFLICT DO NOTHING
           RETURNING report_id AS "report_id: ReportIdColumn", variant AS "variant: U32",
                     content_hash AS "content_hash: HashColumn", received_at"#,
        tenant,
        &ids,
        &variants,
        &hashes,
        &times,
        &revisions,
        &needs as &[Option<Value>],
        now + RETRY_BACKOFFS[0],
        &origins.topics as &[Option<String>],
        &origins.partitions as &[Option<i32>],
        &origins.offsets as &[Option<i64>],
        &origins.indexes as &[Option<i32>]
    )
    .fetch_all(connection)
    .await?;
    Ok(made
        .into_iter()
        .map(|row| {
            KeyRow::new(row.report_id.into(), row.variant.into(), row.content_hash.into(), row.received_at)
        })
        .collect())
}

/// Adds reports that came under the id of other reports, and flags those ids. The first variants have to be
/// locked.
async fn insert_further_variants(tx: &mut TenantTx, new: &[&NewReportKey<'_>]) -> Result<Vec<KeyRow>> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let mut variants = next_variants(tx, new).await?;
    let number = |key: &&'_ NewReportKey<'_>| {
        let next = variants.entry(key.report_id).or_default();
        let variant = *next;
        *next += 1;
        variant
    };
    let numbers: Vec<u32> = new.iter().map(number).collect();
    let numbered: Vec<(&NewReportKey<'_>, u32)> = new.iter().copied().zip(numbers).collect();
    let rows = insert_keys(tx, &numbered).await?;
    let ids: Vec<Uuid> = new.iter().map(|key| key.report_id.uuid()).collect();
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

/// Locks the existing keys of these reports, in the order of id and variant, and the first variant of each
/// id: only its holder adds variants. All other variants of an id stay unlocked.
async fn lock_wanted(tx: &mut TenantTx, wanted: &[&NewReportKey<'_>]) -> Result<Vec<KeyRow>> {
    let ids: Vec<Uuid> = wanted.iter().map(|key| key.report_id.uuid()).collect();
    let hashes: Vec<Vec<u8>> = wanted.iter().map(|key| key.content_hash.0.to_vec()).collect();
    let (connection, tenant, _) = tx.parts();
    Ok(lock_keys!(
        "(SELECT w.report_id, 0 AS variant FROM unnest($2::uuid[]) AS w (report_id)
                 UNION
                 SELECT h.report_id, h.variant FROM unnest($2::uuid[], $3::bytea[]) AS w (report_id, content_hash)
                 JOIN report_keys h ON h.tenant = $1 AND h.report_id = w.report_id AND h.variant > 0
                                   AND h.content_hash = w.content_hash
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
async fn next_variants(tx: &mut TenantTx, wanted: &[&NewReportKey<'_>]) -> Result<BTreeMap<ReportId, u32>> {
    let ids: BTreeSet<Uuid> = wanted.iter().map(|key| key.report_id.uuid()).collect();
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
pub(crate) async fn lock_known(tx: &mut TenantTx, reports: &[RowKey]) -> Result<Vec<KeyRow>> {
    let unique: BTreeSet<RowKey> = reports.iter().copied().collect();
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

/// Returns the times at which the reports with these ids arrived, in all their variants. A statement that has the times as a parameter
/// is planned for their days and locks no others. One that joins the keys is planned for every day, and locks each with its indexes.
///
/// # Errors
/// The database fails.
pub async fn find_arrival_times(tx: &mut TenantTx, reports: &[Uuid]) -> Result<Vec<OffsetDateTime>> {
    let (connection, tenant, _) = tx.parts();
    let times = sqlx::query_scalar!(
        "SELECT DISTINCT received_at FROM report_keys WHERE tenant = $1 AND report_id = ANY ($2)",
        tenant,
        reports
    );
    Ok(times.fetch_all(connection).await?)
}

/// Locks the keys of these reports as far as they exist, in the order of `wanted`, and makes none.
pub(super) async fn lock_stored(
    tx: &mut TenantTx,
    wanted: &[NewReportKey<'_>],
) -> Result<Vec<Option<KeyRow>>> {
    let rows = lock_wanted(tx, &wanted.iter().collect::<Vec<_>>()).await?;
    let mut found: BTreeMap<(ReportId, ContentHash), KeyRow> =
        rows.into_iter().map(|row| ((row.report_id, row.content_hash), row)).collect();
    Ok(wanted.iter().map(|key| found.remove(&key.content())).collect())
}

fn encode_needs(needs: &[NeededSymbols]) -> Option<Value> {
    (!needs.is_empty()).then(|| json!(needs))
}

/// The origins of keys, column by column.
struct OriginColumns {
    topics: Vec<Option<String>>,
    partitions: Vec<Option<i32>>,
    offsets: Vec<Option<i64>>,
    indexes: Vec<Option<i32>>,
}

impl OriginColumns {
    fn from_origins<'a>(origins: impl Iterator<Item = Option<&'a ReportOrigin>> + Clone) -> OriginColumns {
        OriginColumns {
            topics: origins.clone().map(|origin| origin.map(|o| truncate_name(&o.topic))).collect(),
            partitions: origins.clone().map(|origin| origin.map(|o| o.partition)).collect(),
            offsets: origins.clone().map(|origin| origin.map(|o| o.offset)).collect(),
            indexes: origins.map(|origin| origin.map(|o| o.index)).collect(),
        }
    }
}

/// A key that is there, and the new revision of its report.
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
    let needs: Vec<Option<Value>> = advanced.iter().map(|a| encode_needs(&a.retry)).collect();
    let origins = OriginColumns::from_origins(advanced.iter().map(|a| a.origin));
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
        &origins.topics as &[Option<String>],
        &origins.partitions as &[Option<i32>],
        &origins.offsets as &[Option<i64>],
        &origins.indexes as &[Option<i32>]
    )
    .execute(connection)
    .await?;
    Ok(())
}
