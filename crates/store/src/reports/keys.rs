//! The rows that fix a report's moment and number its revisions.

use crate::number::{from_row32, to_row32};
use crate::uploads::read_hash;
use crate::{Result, StoreError, TenantTx, Uuid};
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
    pub(crate) deleted: bool,
}

struct Row {
    report_id: Uuid,
    variant: i32,
    content_hash: Vec<u8>,
    received_at: OffsetDateTime,
    latest_revision: i32,
    requested_revision: i32,
    requested_at: Option<OffsetDateTime>,
    deleted: bool,
}

impl Row {
    fn read(self) -> Result<KeyRow> {
        Ok(KeyRow {
            report_id: ReportId::from_uuid(self.report_id),
            variant: from_row32(self.variant),
            content_hash: read_hash("report_keys", &self.content_hash)?,
            received_at: self.received_at,
            latest_revision: from_row32(self.latest_revision),
            requested_revision: from_row32(self.requested_revision),
            requested_at: self.requested_at,
            deleted: self.deleted,
        })
    }
}

/// Makes the keys that are not there yet and locks all, in the order of `wanted`, which is sorted
/// by id, has those of one id in the order of the log, and names each pair once: variants get the
/// same numbers however the log is cut into batches. Where an id comes with other bytes than before, both
/// reports are kept, the later one as the next variant, and all of that id are flagged.
pub(super) async fn lock(
    tx: &mut TenantTx,
    wanted: &[(ReportId, ContentHash, OffsetDateTime)],
) -> Result<Vec<KeyRow>> {
    let mut first_of_id = wanted.to_vec();
    first_of_id.dedup_by_key(|(id, ..)| *id);
    let ids: Vec<Uuid> = first_of_id.iter().map(|(id, ..)| id.uuid()).collect();
    let hashes: Vec<Vec<u8>> = first_of_id.iter().map(|(_, hash, _)| hash.0.to_vec()).collect();
    let times: Vec<OffsetDateTime> = first_of_id.iter().map(|(.., at)| *at).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO report_keys (tenant, report_id, variant, content_hash, received_at, latest_revision)
         SELECT $1, w.report_id, 0, w.content_hash, w.received_at, 0
         FROM unnest($2::uuid[], $3::bytea[], $4::timestamptz[]) AS w (report_id, content_hash, received_at)
         ORDER BY w.report_id, w.received_at
         ON CONFLICT DO NOTHING",
        tenant,
        &ids,
        &hashes,
        &times
    )
    .execute(connection)
    .await?;
    let mut found: BTreeMap<(ReportId, ContentHash), KeyRow> = BTreeMap::new();
    let mut variants: BTreeMap<ReportId, u32> = BTreeMap::new();
    for row in lock_known(tx, &ids).await? {
        let next = variants.entry(row.report_id).or_default();
        *next = (*next).max(row.variant + 1);
        found.insert((row.report_id, row.content_hash), row);
    }
    let mut conflicted: BTreeSet<Uuid> = BTreeSet::new();
    for (id, hash, at) in wanted {
        if found.contains_key(&(*id, *hash)) {
            continue;
        }
        let variant = variants.entry(*id).or_default();
        let row = KeyRow {
            report_id: *id,
            variant: *variant,
            content_hash: *hash,
            received_at: *at,
            latest_revision: 0,
            requested_revision: 0,
            requested_at: None,
            deleted: false,
        };
        insert_variant(tx, &row).await?;
        *variant += 1;
        conflicted.insert(id.uuid());
        found.insert((*id, *hash), row);
    }
    if !conflicted.is_empty() {
        let ids: Vec<Uuid> = conflicted.into_iter().collect();
        let (connection, tenant, _) = tx.parts();
        sqlx::query!(
            "UPDATE report_keys SET conflicted = true WHERE tenant = $1 AND report_id = ANY ($2)",
            tenant,
            &ids
        )
        .execute(connection)
        .await?;
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

async fn insert_variant(tx: &mut TenantTx, row: &KeyRow) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    // All variants of the id are locked: nobody else takes this number.
    sqlx::query!(
        "INSERT INTO report_keys (tenant, report_id, variant, content_hash, received_at, latest_revision, conflicted)
         VALUES ($1, $2, $3, $4, $5, 0, true)",
        tenant,
        row.report_id.uuid(),
        to_row32(row.variant),
        row.content_hash.0.as_slice(),
        row.received_at
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks every variant of these ids that is there, in the order of id and variant.
pub(crate) async fn lock_known(tx: &mut TenantTx, ids: &[Uuid]) -> Result<Vec<KeyRow>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT report_id, variant, content_hash, received_at, latest_revision, requested_revision, requested_at,
                  deleted_at IS NOT NULL AS "deleted!"
           FROM report_keys WHERE tenant = $1 AND report_id = ANY ($2)
           ORDER BY report_id, variant FOR UPDATE"#,
        tenant,
        ids
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter().map(Row::read).collect()
}

/// A key whose report has a new revision.
pub(super) struct Advance {
    pub(super) report_id: ReportId,
    pub(super) variant: u32,
    pub(super) revision: u32,
    pub(super) ask_pending: bool,
}

/// Notes the new revisions. A request that one of them answers is over.
pub(super) async fn advance(tx: &mut TenantTx, advanced: &[Advance]) -> Result<()> {
    if advanced.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = advanced.iter().map(|a| a.report_id.uuid()).collect();
    let variants: Vec<i32> = advanced.iter().map(|a| to_row32(a.variant)).collect();
    let revisions: Vec<i32> = advanced.iter().map(|a| to_row32(a.revision)).collect();
    let pending: Vec<bool> = advanced.iter().map(|a| a.ask_pending).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys k
         SET latest_revision = a.revision, ask_pending = a.pending,
             requested_at = CASE WHEN k.requested_revision > a.revision THEN k.requested_at END,
             requested_needs = CASE WHEN k.requested_revision > a.revision THEN k.requested_needs END
         FROM unnest($2::uuid[], $3::integer[], $4::integer[], $5::boolean[]) AS a (report_id, variant, revision, pending)
         WHERE k.tenant = $1 AND k.report_id = a.report_id AND k.variant = a.variant",
        tenant,
        &ids,
        &variants,
        &revisions,
        &pending
    )
    .execute(connection)
    .await?;
    Ok(())
}
