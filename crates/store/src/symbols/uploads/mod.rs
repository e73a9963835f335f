//! Uploaded files, from the first byte to the last object built.

pub mod files;
pub mod uploaded;

pub use uploaded::UploadObject;

use crate::column::{HashColumn, JsonColumn, Nullable, OwnerColumn, U64, json_column, words};
use crate::jobs::{self, Work};
use crate::number::{to_row, to_row32};
use crate::{OwnerTx, Result, Store, StoreError, UploadId};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use time::OffsetDateTime;
use unslide_model::{ContentHash, Owned, Owner};
use utoipa::ToSchema;

/// The first time between two reads of an upload's status. A small dSYM is built sooner than a second read.
const SHORTEST_STATUS_INTERVAL: Duration = Duration::from_millis(50);
/// The longest time between two reads of an upload's status.
const LONGEST_STATUS_INTERVAL: Duration = Duration::from_secs(1);

words! {
    /// How far an upload is.
    pub enum UploadStatus {
        /// Its bytes are on their way.
        Receiving = "receiving",
        /// It waits for a builder.
        Queued = "queued",
        /// A builder unpacks it.
        Building = "building",
        /// Every object in it has its final status.
        Done = "done",
        /// Nothing could be made of it; the reason says why.
        Failed = "failed",
    }
}

impl UploadStatus {
    /// Returns true if nothing more will happen.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, UploadStatus::Done | UploadStatus::Failed)
    }
}

/// A member that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Skipped)]
pub struct SkippedMember {
    /// Its path in the archive.
    pub path: String,
    /// The reason, a stable word such as `link`.
    pub reason: String,
    /// Details of the reason, for people; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolUpload {
    /// Its id.
    pub id: UploadId,
    /// How far it is.
    pub status: UploadStatus,
    /// A stable word for the error, or for the reason to wait.
    pub reason: Option<String>,
    /// The error in detail.
    pub detail: Option<String>,
    /// The file's name, as the client said.
    pub file_name: Option<String>,
    /// The app that it belongs to, as the client said.
    pub app: Option<String>,
    /// Its size in bytes, once it has arrived.
    pub size: Option<u64>,
    /// The SHA-256 of its bytes, once they have arrived.
    pub content_hash: Option<ContentHash>,
    /// Members that were skipped.
    pub skipped: Vec<SkippedMember>,
    /// When it began.
    pub created_at: OffsetDateTime,
    /// When its status changed last.
    pub updated_at: OffsetDateTime,
}

json_column!(Vec<SkippedMember>);

/// The uploads that the rest of the statement names.
macro_rules! query_uploads {
    ($rest:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            SymbolUpload,
            r#"SELECT id AS "id: UploadId", status AS "status: UploadStatus", reason, detail, file_name, app,
                      size AS "size!: Nullable<U64>", content_hash AS "content_hash!: Nullable<HashColumn>",
                      skipped AS "skipped: JsonColumn<Vec<SkippedMember>>", created_at, updated_at
               FROM uploads "#
                + $rest,
            $($argument),+
        )
    };
}

/// Begins an upload and returns its id: its bytes may be written under this id once the transaction is
/// committed.
pub async fn create_upload(tx: &mut OwnerTx, file_name: Option<&str>, app: Option<&str>) -> Result<UploadId> {
    let (connection, tenant, now) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"INSERT INTO uploads (id, tenant, status, file_name, app, created_at, updated_at)
         VALUES (unslide_uuid($2), $1, 'receiving', $3, $4, $2, $2) RETURNING id AS "id: UploadId""#,
        tenant,
        now,
        file_name,
        app
    )
    .fetch_one(connection)
    .await?)
}

/// Records that all bytes have arrived, and adds the job that unpacks them. Returns false if the upload does
/// not wait for bytes (any more).
pub async fn record_received(
    tx: &mut OwnerTx,
    id: UploadId,
    size: u64,
    content_hash: &ContentHash,
) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "UPDATE uploads SET status = 'queued', size = $3, content_hash = $4, updated_at = $5
         WHERE tenant = $1 AND id = $2 AND status = 'receiving'",
        tenant,
        id as UploadId,
        to_row(size),
        content_hash.0.as_slice(),
        now
    )
    .execute(connection)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    jobs::add_job(tx, &Work::Build { upload: id }).await?;
    Ok(true)
}

/// Records that a builder has begun.
pub async fn mark_building(tx: &mut OwnerTx, id: UploadId) -> Result<()> {
    update_status(tx, id, UploadStatus::Building, None, &[]).await
}

/// Records that an upload waits for an unavailable server after a builder had begun with it.
pub async fn mark_waiting(tx: &mut OwnerTx, id: UploadId) -> Result<()> {
    let why =
        ("unavailable", "a server that it needs is not available; it continues when the server answers");
    update_status(tx, id, UploadStatus::Queued, Some(why), &[]).await
}

/// Records that every object of the upload has its final status.
pub async fn mark_done(tx: &mut OwnerTx, id: UploadId, skipped: &[SkippedMember]) -> Result<()> {
    update_status(tx, id, UploadStatus::Done, None, skipped).await
}

/// Records that an upload failed: a stable word, and a sentence.
pub async fn mark_failed(
    tx: &mut OwnerTx,
    id: UploadId,
    reason: &str,
    detail: &str,
    skipped: &[SkippedMember],
) -> Result<()> {
    update_status(tx, id, UploadStatus::Failed, Some((reason, detail)), skipped).await
}

async fn update_status(
    tx: &mut OwnerTx,
    id: UploadId,
    status: UploadStatus,
    reason: Option<(&str, &str)>,
    skipped: &[SkippedMember],
) -> Result<()> {
    // Postgres has no NUL in texts, and a path of an archive may hold one.
    let clean = |text: &str| text.replace('\0', "\u{FFFD}");
    let skipped: Vec<SkippedMember> = skipped
        .iter()
        .map(|s| SkippedMember {
            path: clean(&s.path),
            reason: clean(&s.reason),
            detail: s.detail.as_deref().map(clean),
        })
        .collect();
    let skipped = serde_json::to_value(skipped).map_err(|e| StoreError::corrupt("uploads", e))?;
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE uploads SET status = $3, reason = $4, detail = $5, skipped = $6, updated_at = $7
         WHERE tenant = $1 AND id = $2",
        tenant,
        id as UploadId,
        status.as_str(),
        reason.map(|(reason, _)| clean(reason)),
        reason.map(|(_, detail)| clean(detail)),
        skipped,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns an upload; `None` if there is none of that id.
pub async fn find_upload(tx: &mut OwnerTx, id: UploadId) -> Result<Option<SymbolUpload>> {
    let (connection, tenant, _) = tx.parts();
    Ok(query_uploads!("WHERE tenant = $1 AND id = $2", tenant, id as UploadId)
        .fetch_optional(connection)
        .await?)
}

/// Returns an upload with all of its objects, ordered by path; `None` if there is none of that id.
pub async fn get(tx: &mut OwnerTx, id: UploadId) -> Result<Option<(SymbolUpload, Vec<UploadObject>)>> {
    let Some(upload) = find_upload(tx, id).await? else { return Ok(None) };
    Ok(Some((upload, uploaded::list_objects(tx, id, None, None).await?)))
}

/// Returns the newest upload of these bytes that has not failed. A client that sends them again can be
/// pointed to it.
pub async fn by_content(tx: &mut OwnerTx, content_hash: &ContentHash) -> Result<Option<SymbolUpload>> {
    let (connection, tenant, _) = tx.parts();
    Ok(query_uploads!(
        "WHERE tenant = $1 AND content_hash = $2 AND status <> 'failed' ORDER BY created_at DESC, id DESC LIMIT 1",
        tenant,
        content_hash.0.as_slice()
    )
    .fetch_optional(connection)
    .await?)
}

/// Returns an earlier valid upload of these bytes. If its objects were deleted since, the bytes count as new.
///
/// # Errors
/// The database fails.
pub async fn find_valid_upload(tx: &mut OwnerTx, content_hash: &ContentHash) -> Result<Option<SymbolUpload>> {
    let Some(earlier) = by_content(tx, content_hash).await? else { return Ok(None) };
    if earlier.status != UploadStatus::Done {
        return Ok(Some(earlier));
    }
    let objects = uploaded::list_objects(tx, earlier.id, None, Some(1)).await?;
    Ok((!objects.is_empty()).then_some(earlier))
}

/// Returns true if an upload of the owner is on its way or being built, one that has moved since `since`.
pub async fn under_way(tx: &mut OwnerTx, since: OffsetDateTime) -> Result<bool> {
    let (connection, owner, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM uploads
                          WHERE tenant = $1 AND status IN ('receiving', 'queued', 'building')
                            AND updated_at > $2) AS "any!""#,
        owner,
        since
    )
    .fetch_one(connection)
    .await?)
}

/// Uploads, of any owner, that wait for bytes and have received none since `before`; and those that have
/// failed while their parts are still in object storage.
pub async fn list_stuck(store: &Store, before: OffsetDateTime, limit: u32) -> Result<Vec<Owned<UploadId>>> {
    let rows = sqlx::query_as!(
        OwnedUpload,
        r#"SELECT tenant AS "owner!: OwnerColumn", id AS "id!: UploadId" FROM unslide_uploads_stuck($1, $2)"#,
        before,
        to_row32(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?)
}

/// An upload of any owner, as functions that look across owners name it.
type OwnedUpload = Owned<UploadId>;

/// Ends an upload that still waits for its bytes, none of which came since `before`. Returns false if that is
/// not so (any more).
pub async fn mark_abandoned(tx: &mut OwnerTx, id: UploadId, before: OffsetDateTime) -> Result<bool> {
    let detail = "its bytes did not come to their end";
    fail_unreceived(tx, id, "abandoned", detail, Some(before)).await
}

/// Ends an upload that still waits for its bytes, for a reason. Returns false if it no longer waits.
pub async fn given_up(tx: &mut OwnerTx, id: UploadId, reason: &str, detail: &str) -> Result<bool> {
    fail_unreceived(tx, id, reason, detail, None).await
}

async fn fail_unreceived(
    tx: &mut OwnerTx,
    id: UploadId,
    reason: &str,
    detail: &str,
    before: Option<OffsetDateTime>,
) -> Result<bool> {
    let (connection, owner, now) = tx.parts();
    let done = sqlx::query!(
        "UPDATE uploads SET status = 'failed', reason = $3, detail = $4, updated_at = $5
         WHERE tenant = $1 AND id = $2 AND status = 'receiving' AND (updated_at < $6 OR $6 IS NULL)",
        owner,
        id as UploadId,
        reason,
        detail,
        now,
        before
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Returns the newest uploads, newest first.
pub async fn list_newest(tx: &mut OwnerTx, limit: u32) -> Result<Vec<SymbolUpload>> {
    let (connection, tenant, _) = tx.parts();
    let newest = query_uploads!(
        "WHERE tenant = $1 ORDER BY created_at DESC, id DESC LIMIT $2",
        tenant,
        i64::from(limit)
    );
    Ok(newest.fetch_all(connection).await?)
}

/// Does as [`get`], but waits up to `at_most` for the upload's final status first.
pub async fn wait_for_status(
    store: &Store,
    owner: impl Into<Owner>,
    id: UploadId,
    at_most: Duration,
) -> Result<Option<(SymbolUpload, Vec<UploadObject>)>> {
    let end = tokio::time::Instant::now() + at_most;
    let owner = owner.into();
    let mut interval = SHORTEST_STATUS_INTERVAL;
    loop {
        let mut tx = store.owner(&owner).await?;
        let found = get(&mut tx, id).await?;
        tx.rollback().await?;
        let is_over = found.as_ref().is_none_or(|(upload, _)| upload.status.is_final());
        let left = end.saturating_duration_since(tokio::time::Instant::now());
        if is_over || left.is_zero() {
            return Ok(found);
        }
        tokio::time::sleep(interval.min(left)).await;
        interval = (2 * interval).min(LONGEST_STATUS_INTERVAL);
    }
}
