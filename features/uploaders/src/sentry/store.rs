//! The statements about chunks and the files that are made of them.
//!
//! A chunk's object is condemned from the hour after its expiry on, before it is put, and never taken off that list. So
//! whatever fails, its bytes go. The row goes first.

use super::hash::{SHA1_BYTES, Sha1Hash};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use time::{Duration, OffsetDateTime};
use unslide_artifacts::keys::{ObjectKey, feature_file};
use unslide_model::TenantId;
use unslide_store::objects::ObjectStatus;
use unslide_store::sql::{TenantColumn, from_row, to_row, to_row32, words};
use unslide_store::tables::{OwnedTable, RowFiles};
use unslide_store::uploads::UploadStatus;
use unslide_store::{FeatureFile, Result, Store, StoreError, TenantTx, UploadId, Uuid, segments};

/// How long a chunk is kept. Clients end on the first dropped connection, and the next run sends the rest.
pub const CHUNK_LIFETIME: Duration = Duration::DAY;
/// A chunk that expires sooner counts as missing, so that it does not expire while the client sends the others.
const CHUNK_RESERVE: Duration = Duration::HOUR;
/// How long the object of a chunk outlives its row.
const OBJECT_MARGIN: Duration = Duration::HOUR;
/// How long the row of a file is kept. A later run sends the file again, and its bytes are found by their SHA-256.
const FILE_LIFETIME: Duration = Duration::days(30);
/// The folder of chunks below a tenant's prefix.
const CHUNK_FOLDER: &str = "chunks";

/// The tables of the feature.
pub const OWNED_TABLES: &[OwnedTable] = &[
    OwnedTable {
        files: Some(RowFiles { columns: &["sha1", "object_id"], list: list_files }),
        counted_bytes: Some("counted_size"),
        ..OwnedTable::kept_for("uploader_chunks", Duration::ZERO)
    },
    OwnedTable::kept_for("uploader_files", FILE_LIFETIME),
    OwnedTable::kept_for("uploader_urls", Duration::ZERO),
];

words! {
    /// How far a file of chunks is.
    pub enum ChunkedFileState {
        /// It waits to be made, or a process of the api makes it.
        Waiting = "waiting",
        /// It became an upload like any other.
        Stored = "stored",
        /// It is of a kind from which no symbols are built.
        Ignored = "ignored",
        /// Nothing could be made of its chunks.
        Failed = "failed",
    }
}

words! {
    /// The purpose for which a client declared a file.
    pub enum FileUse {
        /// It gives symbols to native code.
        DebugFile = "debug_file",
        /// It is an archive with source maps of JavaScript.
        SourceMaps = "source_maps",
    }
}

/// A file that a client declared, with its upload and the first object in it.
#[derive(Clone, Debug)]
pub struct ChunkedFile {
    /// Hash of the whole file, as 20 bytes.
    pub sha1: Vec<u8>,
    /// Name of the file, as the client sent it.
    pub name: String,
    pub state: ChunkedFileState,
    /// The error, or a remark.
    pub detail: Option<String>,
    pub updated_at: OffsetDateTime,
    pub upload_status: Option<UploadStatus>,
    pub upload_detail: Option<String>,
    /// When the upload's status changed last.
    pub upload_updated_at: Option<OffsetDateTime>,
    pub object_status: Option<ObjectStatus>,
    pub object_reason: Option<String>,
    pub debug_id: Option<Uuid>,
    pub arch: Option<String>,
    pub kind: Option<String>,
    pub size: Option<i64>,
    pub has_dwarf: Option<bool>,
    pub has_symtab: Option<bool>,
}

/// Returns the declared files of an app that have one of these hashes.
pub async fn find_files(tx: &mut TenantTx, app: &str, hashes: &[Sha1Hash]) -> Result<Vec<ChunkedFile>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        ChunkedFile,
        r#"SELECT f.sha1, f.name, f.state AS "state: ChunkedFileState", f.detail, f.updated_at,
                  u.status AS "upload_status?: UploadStatus", u.detail AS "upload_detail?",
                  u.updated_at AS "upload_updated_at?", o.status AS "object_status?: ObjectStatus",
                  o.reason AS "object_reason?", o.debug_id AS "debug_id?", o.arch AS "arch?", o.kind AS "kind?",
                  o.size AS "size?", o.has_dwarf AS "has_dwarf?", o.has_symtab AS "has_symtab?"
           FROM uploader_files f
           LEFT JOIN uploads u ON u.tenant = f.tenant AND u.id = f.upload_id
           LEFT JOIN LATERAL (
               SELECT b.* FROM upload_objects p
               JOIN objects b ON b.tenant = p.tenant AND b.content_hash = p.content_hash
               WHERE p.tenant = f.tenant AND p.upload_id = f.upload_id
               ORDER BY p.path, p.content_hash LIMIT 1) o ON true
           WHERE f.tenant = $1 AND f.app = $2 AND f.sha1 = ANY ($3)"#,
        tenant,
        app,
        &hash_rows(hashes)
    )
    .fetch_all(connection)
    .await?)
}

/// A chunk that is stored.
#[derive(Clone, Copy, Debug)]
pub struct StoredChunk {
    pub object_id: Uuid,
    pub size: u64,
    /// True if it is kept for long enough to count for a client that sends other chunks.
    pub is_lasting: bool,
}

/// Returns the stored chunks that have one of these hashes.
pub async fn find_chunks(tx: &mut TenantTx, hashes: &[Sha1Hash]) -> Result<HashMap<Sha1Hash, StoredChunk>> {
    let (connection, tenant, now) = tx.parts();
    let rows = sqlx::query!(
        "SELECT sha1, object_id, size, expires_at FROM uploader_chunks
         WHERE tenant = $1 AND sha1 = ANY ($2) AND expires_at > $3",
        tenant,
        &hash_rows(hashes),
        now
    )
    .fetch_all(connection)
    .await?;
    let chunks = rows.into_iter().filter_map(|row| {
        let is_lasting = row.expires_at > now + CHUNK_RESERVE;
        let chunk = StoredChunk { object_id: row.object_id, size: from_row(row.size), is_lasting };
        Some((Sha1Hash::from_bytes(&row.sha1)?, chunk))
    });
    Ok(chunks.collect())
}

/// A chunk with an object in object storage, before it has a row.
#[derive(Clone, Copy, Debug)]
pub struct NewChunk {
    pub sha1: Sha1Hash,
    pub object_id: Uuid,
    pub size: u64,
}

/// Condemns the objects of chunks that are about to be put, for the time after their expiry.
pub async fn expect_chunks(tx: &mut TenantTx, keys: &[ObjectKey]) -> Result<()> {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let at = tx.now() + CHUNK_LIFETIME + OBJECT_MARGIN;
    segments::condemn_at(tx, &keys, at).await
}

/// Records chunks. One that is there already stays, unless it expires soon. Returns the hashes of those with the new object.
pub async fn add_chunks(tx: &mut TenantTx, chunks: &[NewChunk]) -> Result<HashSet<Sha1Hash>> {
    let hashes: Vec<Sha1Hash> = chunks.iter().map(|chunk| chunk.sha1).collect();
    let ids: Vec<_> = chunks.iter().map(|chunk| chunk.object_id).collect();
    let sizes: Vec<i64> = chunks.iter().map(|chunk| to_row(chunk.size)).collect();
    let (connection, tenant, now) = tx.parts();
    let added = sqlx::query_scalar!(
        "INSERT INTO uploader_chunks AS c (tenant, sha1, object_id, size, counted, expires_at)
         SELECT $1, n.sha1, n.object_id, n.size, true, $5
         FROM unnest($2::bytea[], $3::uuid[], $4::bigint[]) AS n (sha1, object_id, size)
         ON CONFLICT (tenant, sha1) DO UPDATE
         SET object_id = excluded.object_id, counted = true, expires_at = excluded.expires_at
         WHERE c.expires_at <= $6 RETURNING sha1",
        tenant,
        &hash_rows(&hashes),
        &ids,
        &sizes,
        now + CHUNK_LIFETIME,
        now + CHUNK_RESERVE
    );
    let added = added.fetch_all(connection).await?;
    Ok(added.iter().filter_map(|sha1| Sha1Hash::from_bytes(sha1)).collect())
}

/// Counts the chunks of the tenant.
pub async fn count_chunks(tx: &mut TenantTx) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let number =
        sqlx::query_scalar!(r#"SELECT count(*) AS "number!" FROM uploader_chunks WHERE tenant = $1"#, tenant);
    Ok(from_row(number.fetch_one(connection).await?))
}

/// Sets whether chunks count against the tenant's limit: not while a file that is made of them counts.
pub async fn set_counted(tx: &mut TenantTx, hashes: &[Sha1Hash], is_counted: bool) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE uploader_chunks SET counted = $3 WHERE tenant = $1 AND sha1 = ANY ($2) AND counted <> $3",
        tenant,
        &hash_rows(hashes),
        is_counted
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Forgets chunks, for example because their objects are lost. Returns the keys of their objects.
pub async fn delete_chunks(tx: &mut TenantTx, hashes: &[Sha1Hash]) -> Result<Vec<ObjectKey>> {
    let owner = tx.tenant()?;
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "DELETE FROM uploader_chunks WHERE tenant = $1 AND sha1 = ANY ($2) RETURNING sha1, object_id",
        tenant,
        &hash_rows(hashes)
    );
    let rows = rows.fetch_all(connection).await?;
    let key = |sha1: &[u8], object_id| Some(chunk_key(&owner, object_id, Sha1Hash::from_bytes(sha1)?));
    Ok(rows.iter().filter_map(|row| key(&row.sha1, row.object_id)).collect())
}

/// Forgets the chunks of a file that was made: the file counts, and they would be stored beside it without counting.
/// Those of other files that wait stay, and count. Returns the keys of the objects of those that are forgotten.
pub async fn release_chunks(tx: &mut TenantTx, hashes: &[Sha1Hash]) -> Result<Vec<ObjectKey>> {
    set_counted(tx, hashes, true).await?;
    let (connection, tenant, _) = tx.parts();
    let unused = sqlx::query_scalar!(
        "SELECT c.sha1 FROM uploader_chunks c
         WHERE c.tenant = $1 AND c.sha1 = ANY ($2) AND NOT EXISTS (
             SELECT FROM uploader_files f
             WHERE f.tenant = $1 AND f.state = 'waiting' AND position(c.sha1 IN f.chunks) > 0)",
        tenant,
        &hash_rows(hashes)
    );
    let unused = unused.fetch_all(connection).await?;
    let unused: Vec<Sha1Hash> = unused.iter().filter_map(|sha1| Sha1Hash::from_bytes(sha1)).collect();
    delete_chunks(tx, &unused).await
}

/// A file with all its chunks, to be made.
#[derive(Clone, Debug)]
pub struct NewChunkedFile {
    /// Hash of the whole file.
    pub sha1: Sha1Hash,
    /// Name of the file, as the client sent it.
    pub name: String,
    /// Hashes of its chunks, in their order.
    pub chunks: Vec<Sha1Hash>,
    pub file_use: FileUse,
}

/// Limits of the sender, which hold when the file is made.
#[derive(Clone, Copy, Debug)]
pub struct FileLimits {
    /// The key is for one app.
    pub is_for_one_app: bool,
    /// The most bytes of a file.
    pub file_bytes: u64,
    /// The most bytes of all symbols; None without a limit.
    pub symbol_bytes: Option<u64>,
}

/// Adds files to be made. One that waits already is not changed.
pub async fn add_files(
    tx: &mut TenantTx,
    app: &str,
    files: &[NewChunkedFile],
    limits: FileLimits,
) -> Result<()> {
    let hashes: Vec<Sha1Hash> = files.iter().map(|file| file.sha1).collect();
    let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
    let chunks: Vec<Vec<u8>> = files.iter().map(|file| chunk_column(&file.chunks)).collect();
    let uses: Vec<String> = files.iter().map(|file| file.file_use.as_str().to_owned()).collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO uploader_files AS f (tenant, app, sha1, name, chunks, file_use, one_app, file_limit, symbol_limit,
                                          state, attempts, due_at, updated_at)
         SELECT $1, $2, n.sha1, n.name, n.chunks, n.file_use, $7, $8, $9, 'waiting', 0, $10, $10
         FROM unnest($3::bytea[], $4::text[], $5::bytea[], $6::text[]) AS n (sha1, name, chunks, file_use)
         ON CONFLICT (tenant, app, sha1) DO UPDATE
         SET name = excluded.name, chunks = excluded.chunks, file_use = excluded.file_use, one_app = excluded.one_app,
             file_limit = excluded.file_limit, symbol_limit = excluded.symbol_limit, state = 'waiting',
             upload_id = NULL, detail = NULL, attempts = 0, due_at = excluded.due_at,
             updated_at = excluded.updated_at
         WHERE f.state <> 'waiting'",
        tenant,
        app,
        &hash_rows(&hashes),
        &names,
        &chunks,
        &uses,
        limits.is_for_one_app,
        to_row(limits.file_bytes),
        limits.symbol_bytes.map(to_row),
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the files of the tenant that wait to be made.
pub async fn count_waiting(tx: &mut TenantTx) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let number = sqlx::query_scalar!(
        r#"SELECT count(*) AS "number!" FROM uploader_files WHERE tenant = $1 AND state = 'waiting'"#,
        tenant
    );
    Ok(from_row(number.fetch_one(connection).await?))
}

/// A file that a process may make now.
#[derive(Clone, Debug)]
pub struct DueFile {
    pub tenant: TenantId,
    /// The app that it belongs to.
    pub app: String,
    /// Hash of the whole file, as 20 bytes.
    pub sha1: Vec<u8>,
}

/// Returns files of all tenants that wait to be made, the tenants one after the other. The end of the statement marks it
/// as work in the background.
pub async fn find_due(store: &Store, limit: u32) -> Result<Vec<DueFile>> {
    Ok(sqlx::query_as!(
        DueFile,
        r#"SELECT tenant AS "tenant!: TenantColumn", app AS "app!", sha1 AS "sha1!"
           FROM unslide_uploader_files_due($1, $2) -- refresh"#,
        store.now(),
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?)
}

/// A file that this process makes.
#[derive(Clone, Debug)]
pub struct ClaimedFile {
    pub tenant: TenantId,
    /// The app that it belongs to.
    pub app: String,
    pub file: NewChunkedFile,
    pub limits: FileLimits,
    /// Number of attempts, with this one.
    pub attempts: u32,
}

/// Claims a file for this process until a time. Returns None if another process has it.
pub async fn claim_file(
    tx: &mut TenantTx,
    due: &DueFile,
    until: OffsetDateTime,
) -> Result<Option<ClaimedFile>> {
    let (connection, tenant, now) = tx.parts();
    let row = sqlx::query!(
        r#"UPDATE uploader_files SET due_at = $4, attempts = attempts + 1
           WHERE tenant = $1 AND app = $2 AND sha1 = $3 AND state = 'waiting' AND due_at <= $5
           RETURNING name, chunks, file_use AS "file_use: FileUse", one_app, file_limit, symbol_limit, attempts"#,
        tenant,
        due.app,
        due.sha1,
        until,
        now
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let corrupt = || StoreError::corrupt("uploader_files", "a hash of another length");
    let chunks = row.chunks.chunks(SHA1_BYTES).map(|hash| Sha1Hash::from_bytes(hash).ok_or_else(corrupt));
    let chunks = chunks.collect::<Result<Vec<_>>>()?;
    let sha1 = Sha1Hash::from_bytes(&due.sha1).ok_or_else(corrupt)?;
    Ok(Some(ClaimedFile {
        tenant: due.tenant.clone(),
        app: due.app.clone(),
        file: NewChunkedFile { sha1, name: row.name, chunks, file_use: row.file_use },
        limits: FileLimits {
            is_for_one_app: row.one_app,
            file_bytes: from_row(row.file_limit),
            symbol_bytes: row.symbol_limit.map(from_row),
        },
        attempts: row.attempts.unsigned_abs(),
    }))
}

/// Lets a waiting file be claimed from a time on: later while it is made, and after a failure that may pass.
pub async fn set_due(tx: &mut TenantTx, app: &str, sha1: Sha1Hash, at: OffsetDateTime) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE uploader_files SET due_at = $4
         WHERE tenant = $1 AND app = $2 AND sha1 = $3 AND state = 'waiting'",
        tenant,
        app,
        sha1.0.as_slice(),
        at
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records the end of a waiting file: the upload that it became, or the reason or remark.
pub async fn finish_file(
    tx: &mut TenantTx,
    app: &str,
    sha1: Sha1Hash,
    state: ChunkedFileState,
    upload_id: Option<UploadId>,
    detail: Option<&str>,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE uploader_files SET state = $4, upload_id = $5, detail = $6, updated_at = $7
         WHERE tenant = $1 AND app = $2 AND sha1 = $3 AND state = 'waiting'",
        tenant,
        app,
        sha1.0.as_slice(),
        state.as_str(),
        upload_id as Option<UploadId>,
        detail,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Forgets a file: the client has to declare it again.
pub async fn delete_file(tx: &mut TenantTx, app: &str, sha1: Sha1Hash) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM uploader_files WHERE tenant = $1 AND app = $2 AND sha1 = $3",
        tenant,
        app,
        sha1.0.as_slice()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the key of a chunk's object.
pub fn chunk_key(tenant: &TenantId, object_id: Uuid, sha1: Sha1Hash) -> ObjectKey {
    feature_file(tenant, CHUNK_FOLDER, object_id, sha1)
}

/// The columns that say which object a chunk has.
#[derive(Deserialize)]
struct ChunkRow {
    /// With `\x` before it.
    sha1: String,
    object_id: Uuid,
}

fn list_files(tenant: &TenantId, row: Value) -> Result<Vec<FeatureFile>> {
    let row: ChunkRow = serde_json::from_value(row).map_err(|e| StoreError::corrupt("uploader_chunks", e))?;
    let sha1 = row.sha1.trim_start_matches("\\x").parse::<Sha1Hash>();
    let sha1 = sha1.map_err(|e| StoreError::corrupt("uploader_chunks", e))?;
    let key = chunk_key(tenant, row.object_id, sha1).to_string();
    // A lost chunk is sent again, so no file is needed.
    Ok(vec![FeatureFile { key, needed_as: None }])
}

fn hash_rows(hashes: &[Sha1Hash]) -> Vec<Vec<u8>> {
    hashes.iter().map(|hash| hash.0.to_vec()).collect()
}

fn chunk_column(chunks: &[Sha1Hash]) -> Vec<u8> {
    chunks.iter().flat_map(|hash| hash.0).collect()
}
