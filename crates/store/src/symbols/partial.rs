//! Open uploads that come in parts, and that continue from the position at which they stopped.
//!
//! While an upload is open, its parts are separate from any object in object storage, and its announced size
//! counts as used. Its row in `uploads` says whether it still takes parts.

use crate::column::{HashColumn, U64};
use crate::number::{from_row, from_row32, to_row, to_row32};
use crate::{OwnerTx, Result, UploadId};
use time::Duration;
use unslide_model::ContentHash;

/// Properties of an upload in parts that are known before the parts come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The file's name, as the client said.
    pub file_name: Option<String>,
    /// The app that it belongs to, as the client said.
    pub app: Option<String>,
    /// Bytes of all parts together.
    pub size: u64,
    /// The SHA-256 of all parts together.
    pub content_hash: ContentHash,
    /// Bytes of each part but the last.
    pub part_bytes: u64,
}

/// An upload that takes parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Its id.
    pub id: UploadId,
    /// The announced properties.
    pub announced: Announced,
    /// Object storage's name for the multipart upload.
    pub multipart_id: String,
}

impl Partial {
    /// Returns how many parts there are when all have come.
    #[must_use]
    pub fn part_count(&self) -> u32 {
        u32::try_from(self.announced.size.div_ceil(self.announced.part_bytes.max(1))).unwrap_or(u32::MAX)
    }

    /// Returns the bytes of a part; `None` if there is no part of this number.
    #[must_use]
    pub fn bytes_of(&self, number: u32) -> Option<u64> {
        let before = u64::from(number.checked_sub(1)?).checked_mul(self.announced.part_bytes)?;
        let left = self.announced.size.checked_sub(before).filter(|left| *left > 0)?;
        Some(left.min(self.announced.part_bytes))
    }
}

/// A part that is safe in object storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPart {
    /// Its place among the parts, from 1 on.
    pub number: u32,
    /// Object storage's name for its bytes.
    pub etag: String,
}

/// For how long one request alone has the file made of the parts: longer than object storage takes.
pub const COMPLETION_TIMEOUT: Duration = Duration::minutes(5);

macro_rules! query_partial {
    ($rest:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            Row,
            r#"SELECT u.id AS "id: UploadId", u.file_name, u.app, p.size AS "size: U64", p.content_hash AS "content_hash: HashColumn",
                      p.part_bytes AS "part_bytes: U64", p.multipart_id
               FROM partial_uploads p JOIN uploads u ON u.id = p.upload_id "#
                + $rest,
            $($argument),+
        )
    };
}

struct Row {
    id: UploadId,
    file_name: Option<String>,
    app: Option<String>,
    size: u64,
    content_hash: ContentHash,
    part_bytes: u64,
    multipart_id: String,
}

impl From<Row> for Partial {
    fn from(row: Row) -> Partial {
        let Row { id, file_name, app, size, content_hash, part_bytes, multipart_id } = row;
        Partial { id, announced: Announced { file_name, app, size, content_hash, part_bytes }, multipart_id }
    }
}

/// Makes an id for an upload that does not exist yet: the multipart upload of object storage begins first.
pub async fn new_id(tx: &mut OwnerTx) -> Result<UploadId> {
    let (connection, _, now) = tx.parts();
    Ok(sqlx::query_scalar!(r#"SELECT unslide_uuid($1) AS "id!: UploadId""#, now)
        .fetch_one(connection)
        .await?)
}

/// Begins an upload: its parts may be noted from now on.
pub async fn begin_upload(tx: &mut OwnerTx, partial: &Partial) -> Result<()> {
    let (connection, owner, now) = tx.parts();
    let announced = &partial.announced;
    sqlx::query!(
        "INSERT INTO uploads (id, tenant, status, file_name, app, created_at, updated_at)
         VALUES ($1, $2, 'receiving', $3, $4, $5, $5)",
        partial.id as UploadId,
        owner,
        announced.file_name,
        announced.app,
        now
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO partial_uploads (upload_id, tenant, size, content_hash, part_bytes, multipart_id)
         VALUES ($1, $2, $3, $4, $5, $6)",
        partial.id as UploadId,
        owner,
        to_row(announced.size),
        announced.content_hash.0.as_slice(),
        to_row(announced.part_bytes),
        partial.multipart_id
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the newest upload that takes parts of these bytes for this app.
pub async fn find_upload(
    tx: &mut OwnerTx,
    app: Option<&str>,
    content_hash: &ContentHash,
    size: u64,
) -> Result<Option<Partial>> {
    let (connection, owner, _) = tx.parts();
    let row = query_partial!(
        "WHERE p.tenant = $1 AND p.content_hash = $2 AND p.size = $3
           AND u.app IS NOT DISTINCT FROM $4 AND u.status = 'receiving'
         ORDER BY u.created_at DESC, u.id DESC LIMIT 1",
        owner,
        content_hash.0.as_slice(),
        to_row(size),
        app
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(Partial::from))
}

/// Returns an upload if object storage still holds its parts, whether or not it takes more of them.
pub async fn get(tx: &mut OwnerTx, id: UploadId) -> Result<Option<Partial>> {
    let (connection, owner, _) = tx.parts();
    let row = query_partial!("WHERE p.tenant = $1 AND p.upload_id = $2", owner, id as UploadId)
        .fetch_optional(connection)
        .await?;
    Ok(row.map(Partial::from))
}

/// Lists up to `limit` of them, of the transaction's owner.
pub async fn list_uploads(tx: &mut OwnerTx, limit: u32) -> Result<Vec<Partial>> {
    let (connection, owner, _) = tx.parts();
    let rows = query_partial!("WHERE p.tenant = $1 ORDER BY p.upload_id LIMIT $2", owner, i64::from(limit))
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(Partial::from).collect())
}

/// Counts those of the transaction's owner.
pub async fn count_uploads(tx: &mut OwnerTx) -> Result<u64> {
    let (connection, owner, _) = tx.parts();
    let count =
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM partial_uploads WHERE tenant = $1"#, owner);
    Ok(from_row(count.fetch_one(connection).await?))
}

/// Returns the parts that have come, by number.
pub async fn list_parts(tx: &mut OwnerTx, id: UploadId) -> Result<Vec<UploadPart>> {
    let (connection, owner, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT number, etag FROM upload_parts WHERE tenant = $1 AND upload_id = $2 ORDER BY number",
        owner,
        id as UploadId
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| UploadPart { number: from_row32(row.number), etag: row.etag }).collect())
}

/// Records that a part has come, in the place of an earlier one of its number. Returns false if the upload
/// takes no parts any more.
pub async fn record_part(tx: &mut OwnerTx, id: UploadId, part: &UploadPart) -> Result<bool> {
    let (connection, owner, now) = tx.parts();
    // Its row stays locked: the upload ends before this part or after it.
    let open = sqlx::query!(
        "UPDATE uploads SET updated_at = $3
         WHERE tenant = $1 AND id = $2 AND status = 'receiving'
           AND EXISTS (SELECT FROM partial_uploads p WHERE p.tenant = $1 AND p.upload_id = $2)",
        owner,
        id as UploadId,
        now
    )
    .execute(&mut *connection)
    .await?;
    if open.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!(
        "INSERT INTO upload_parts (tenant, upload_id, number, etag) VALUES ($1, $2, $3, $4)
         ON CONFLICT (upload_id, number) DO UPDATE SET etag = excluded.etag",
        owner,
        id as UploadId,
        to_row32(part.number),
        part.etag
    )
    .execute(connection)
    .await?;
    Ok(true)
}

/// The caller's right to make the file of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// No request has tried before.
    First,
    /// An earlier request has tried, and its time is over.
    Again,
}

/// Reserves the completion of the upload, making the file from its parts, for the caller, for [`COMPLETION_TIMEOUT`]
/// at most. Returns `None` if another request has reserved it, or there are no parts any more.
pub async fn reserve_completion(tx: &mut OwnerTx, id: UploadId) -> Result<Option<Completion>> {
    let (connection, owner, now) = tx.parts();
    let was_tried = sqlx::query_scalar!(
        r#"WITH earlier AS (
               SELECT completing_at FROM partial_uploads WHERE tenant = $1 AND upload_id = $2 FOR UPDATE
           )
           UPDATE partial_uploads p SET completing_at = $3 FROM earlier
           WHERE p.tenant = $1 AND p.upload_id = $2
             AND (earlier.completing_at IS NULL OR earlier.completing_at <= $4)
           RETURNING earlier.completing_at IS NOT NULL AS "was_tried!""#,
        owner,
        id as UploadId,
        now,
        now - COMPLETION_TIMEOUT
    )
    .fetch_optional(connection)
    .await?;
    Ok(was_tried.map(|was_tried| if was_tried { Completion::Again } else { Completion::First }))
}

/// Releases the completion after the file was not made: the next request may try.
pub async fn let_go(tx: &mut OwnerTx, id: UploadId) -> Result<()> {
    let (connection, owner, _) = tx.parts();
    sqlx::query!(
        "UPDATE partial_uploads SET completing_at = NULL WHERE tenant = $1 AND upload_id = $2",
        owner,
        id as UploadId
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that object storage holds no parts of the upload any more: they are its object, or gone. Returns
/// false if that was recorded before.
pub async fn end_upload(tx: &mut OwnerTx, id: UploadId) -> Result<bool> {
    let (connection, owner, _) = tx.parts();
    let done = sqlx::query!(
        "DELETE FROM partial_uploads WHERE tenant = $1 AND upload_id = $2",
        owner,
        id as UploadId
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_is_what_is_left() {
        let sizes = |size, part_bytes| {
            let announced = Announced {
                file_name: None,
                app: None,
                size,
                content_hash: ContentHash([0; 32]),
                part_bytes,
            };
            let partial = Partial { id: UploadId::default(), announced, multipart_id: String::new() };
            let sizes: Vec<u64> = (0..=9).filter_map(|number| partial.bytes_of(number)).collect();
            assert_eq!(partial.part_count() as usize, sizes.len());
            assert_eq!(partial.bytes_of(u32::MAX), None);
            sizes
        };
        assert_eq!(sizes(10, 4), [4, 4, 2]);
        assert_eq!(sizes(8, 4), [4, 4]);
        assert_eq!(sizes(3, 4), [3]);
    }
}
