//! The rows of an owner of symbols that speak of files in object storage, for a comparison of both.

use crate::column::{DebugIdColumn, HashColumn, Nullable, U32};
use crate::objects::ObjectStatus;
use crate::uploads::UploadStatus;
use crate::{OwnerTx, Result, UploadId};
use unslide_model::{ContentHash, DebugId};

/// An object with the files that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFiles {
    /// The SHA-256 of the slice.
    pub content_hash: ContentHash,
    /// Its debug id, if it has one.
    pub debug_id: Option<DebugId>,
    /// Its file's name.
    pub name: String,
    /// Whether its symcache was built.
    pub status: ObjectStatus,
    /// The format and the SHA-256 of its symcache.
    pub symcache: Option<(u32, ContentHash)>,
    /// True if it answers for its debug id.
    pub answers: bool,
}

/// Returns all objects of the transaction's owner.
pub async fn list_object_files(tx: &mut OwnerTx) -> Result<Vec<ObjectFiles>> {
    let (connection, owner, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT o.content_hash AS "content_hash: HashColumn",
                  o.debug_id AS "debug_id!: Nullable<DebugIdColumn>", o.name, o.status AS "status: ObjectStatus",
                  o.symcache_version AS "symcache_version!: Nullable<U32>",
                  o.symcache_hash AS "symcache_hash!: Nullable<HashColumn>",
                  coalesce(s.quality > 0 AND s.content_hash = o.content_hash, false) AS "answers!"
           FROM objects o LEFT JOIN symbol_slots s ON s.tenant = o.tenant AND s.debug_id = o.debug_id
           WHERE o.tenant = $1"#,
        owner
    )
    .fetch_all(connection)
    .await?;
    let files = rows.into_iter().map(|row| ObjectFiles {
        content_hash: row.content_hash.into(),
        debug_id: row.debug_id.into(),
        name: row.name,
        status: row.status,
        symcache: Option::from(row.symcache_version).zip(Option::from(row.symcache_hash)),
        answers: row.answers,
    });
    Ok(files.collect())
}

/// Returns the uploads of the transaction's owner that have a file or may have one, with their status.
pub async fn list_upload_files(tx: &mut OwnerTx) -> Result<Vec<(UploadId, UploadStatus)>> {
    let (connection, owner, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT id AS "id: UploadId", status AS "status: UploadStatus" FROM uploads WHERE tenant = $1 AND file_gone_at IS NULL"#,
        owner
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(|row| (row.id, row.status)).collect())
}
