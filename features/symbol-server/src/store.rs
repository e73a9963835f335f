//! The statements about files of symbols.

use unslide_model::{ContentHash, DebugId};
use unslide_store::sql::{HashColumn, U64};
use unslide_store::{OwnerTx, Result};

/// One slice of an uploaded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolFile {
    /// The SHA-256 of its bytes.
    pub content_hash: ContentHash,
    /// The name of the file, without its folder.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
}

/// Finds the best file of a debug id that is of one of these kinds; with an empty list, of any kind. With `app` it must
/// come from an upload for this app. A file that is damaged or waits for its builder is left out.
pub async fn find_file(
    tx: &mut OwnerTx,
    debug_id: &DebugId,
    kinds: &[&str],
    app: Option<&str>,
) -> Result<Option<SymbolFile>> {
    let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT content_hash AS "content_hash: HashColumn", name, size AS "size: U64" FROM objects o
           WHERE tenant = $1 AND debug_id = $2 AND status IN ('ready', 'too_complex')
             AND (cardinality($3::text[]) = 0 OR kind = ANY ($3))
             AND ($4::text IS NULL OR EXISTS (
                 SELECT FROM upload_objects b JOIN uploads u ON u.tenant = b.tenant AND u.id = b.upload_id
                 WHERE b.tenant = $1 AND b.content_hash = o.content_hash AND u.app = $4))
           ORDER BY quality DESC, created_at DESC, content_hash LIMIT 1"#,
        tenant,
        debug_id.uuid(),
        &kinds,
        app
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| SymbolFile {
        content_hash: row.content_hash.into(),
        name: row.name,
        size: row.size.into(),
    }))
}
