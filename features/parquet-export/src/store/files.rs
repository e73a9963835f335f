//! The files that are in the bucket.

use time::Date;
use unslide_store::{Result, TenantTx};

/// A replaced file that is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedFile {
    /// The path behind the prefix.
    pub path: String,
}

/// Adds a file that is about to be written.
pub async fn add_file(tx: &mut TenantTx, path: &str, day: Date, generation: i64) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO parquet_files (tenant, path, day, generation) VALUES ($1, $2, $3, $4)",
        tenant,
        path,
        day,
        generation
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the replaced files that may be deleted now.
pub async fn list_ended(tx: &mut TenantTx, limit: i64) -> Result<Vec<EndedFile>> {
    let (connection, tenant, now) = tx.parts();
    let ended = sqlx::query_as!(
        EndedFile,
        "SELECT path FROM parquet_files WHERE tenant = $1 AND delete_at <= $2 ORDER BY delete_at, path LIMIT $3",
        tenant,
        now,
        limit
    );
    Ok(ended.fetch_all(connection).await?)
}

/// Forgets a file that was deleted.
pub async fn forget_file(tx: &mut TenantTx, file: &EndedFile) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM parquet_files WHERE tenant = $1 AND path = $2 AND delete_at IS NOT NULL",
        tenant,
        file.path
    )
    .execute(connection)
    .await?;
    Ok(())
}
