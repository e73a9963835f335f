//! Objects: one slice of one file each, kept by the hash of its bytes.

use crate::column::{DebugIdColumn, HashColumn, json_column, words};
use crate::jobs::{self, Work};
use crate::number::{to_row, to_row32};
use crate::{OwnerTx, Result, StoreError, UploadId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use time::{Duration, OffsetDateTime};
use unslide_model::{ContentHash, DebugId, Quality};
use utoipa::ToSchema;

words! {
    /// The status of an object.
    pub enum ObjectStatus {
        /// It waits for a builder.
        Queued = "queued",
        /// Its symcache is being built.
        Building = "building",
        /// It has a symcache.
        Ready = "ready",
        /// It is damaged; the reason says how.
        Malformed = "malformed",
        /// It is a file that no symcache is built from; the reason says what kind.
        Unsupported = "unsupported",
        /// A limit of the builder ended its build; the reason says which. The builder retries it when it is
        /// uploaded again or symcaches are rebuilt.
        TooComplex = "too_complex",
    }
}

/// Facts about an object that the builder knows before it builds the symcache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewObject {
    /// The SHA-256 of the slice.
    pub content_hash: ContentHash,
    /// Its `LC_UUID`, if it has one.
    pub debug_id: Option<DebugId>,
    /// Its file's name.
    pub name: String,
    /// Its architecture, such as `arm64e`.
    pub arch: String,
    /// Its kind, such as `dsym` or `executable`.
    pub kind: String,
    /// It has line tables and functions.
    pub has_dwarf: bool,
    /// It has a symbol table.
    pub has_symtab: bool,
    /// It has exported names.
    pub has_exports: bool,
    /// It has sources.
    pub has_sources: bool,
    /// Its size in bytes.
    pub size: u64,
}

/// One architecture of one Mach-O file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SymbolObject)]
pub struct ObjectRow {
    /// Debug id (`LC_UUID`); absent if the file has none or could not be read that far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub debug_id: Option<DebugId>,
    /// The SHA-256 of its bytes.
    #[serde(rename = "sha256")]
    #[schema(value_type = String, min_length = 64, max_length = 64)]
    pub content_hash: ContentHash,
    /// Name of the file, without its folder.
    #[schema(example = "Shop")]
    pub name: String,
    /// Architecture of the slice, such as `arm64`.
    #[schema(example = "arm64")]
    pub arch: String,
    /// Kind of the file, such as `dsym`.
    #[schema(example = "dsym")]
    pub kind: String,
    /// Debug information that the file contains.
    pub offers: Offers,
    /// How much it offers: what its sections promise, then what the build found.
    #[serde(skip)]
    pub quality: Quality,
    /// Size of the slice in bytes.
    pub size: u64,
    /// `queued`, `building`, `ready`, `malformed`, `unsupported` or `too_complex`.
    #[schema(value_type = String)]
    pub status: ObjectStatus,
    /// Why it is malformed, unsupported or too complex; of a ready object, what in it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes of the symcache that was built from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symcache_size: Option<u64>,
    /// The SHA-256 of its symcache.
    #[serde(skip)]
    pub symcache_hash: Option<ContentHash>,
    /// The version of its symcache's format.
    #[serde(skip)]
    pub symcache_version: Option<u32>,
    /// When the object was first uploaded (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When its status changed last.
    #[serde(skip)]
    pub updated_at: OffsetDateTime,
}

/// Kinds of debug information in a file, and whether each is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offers {
    /// DWARF: functions, files, lines, inlining.
    pub dwarf: bool,
    /// A symbol table: the names of functions.
    pub symtab: bool,
    /// Exported names, which are only a part of the functions.
    pub exports: bool,
    /// Source code that the file itself contains.
    pub sources: bool,
}

json_column!(Offers);

/// A symcache that was built and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symcache {
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: ContentHash,
    /// The version of its format.
    pub version: u32,
}

impl ObjectRow {
    /// Returns its symcache, once it is ready.
    #[must_use]
    pub fn symcache(&self) -> Option<Symcache> {
        let (size, sha256) = (self.symcache_size?, self.symcache_hash?);
        Some(Symcache { size, sha256, version: self.symcache_version? })
    }
}

/// The objects that the rest of the statement names.
macro_rules! query_objects {
    ($rest:tt, $($argument:expr),+ $(,)?) => {{
        use $crate::column::{DebugIdColumn, HashColumn, JsonColumn, Nullable, QualityColumn, U32, U64};
        use $crate::objects::{ObjectRow, ObjectStatus, Offers};
        sqlx::query_as!(
            ObjectRow,
            r#"SELECT content_hash AS "content_hash: HashColumn", debug_id AS "debug_id!: Nullable<DebugIdColumn>",
                      name, arch, kind, jsonb_build_object('dwarf', has_dwarf, 'symtab', has_symtab,
                          'exports', has_exports, 'sources', has_sources) AS "offers!: JsonColumn<Offers>",
                      quality AS "quality: QualityColumn", size AS "size: U64", status AS "status: ObjectStatus",
                      reason, symcache_size AS "symcache_size!: Nullable<U64>",
                      symcache_hash AS "symcache_hash!: Nullable<HashColumn>",
                      symcache_version AS "symcache_version!: Nullable<U32>", created_at, updated_at
               FROM objects o "#
                + $rest,
            $($argument),+
        )
    }};
}
pub(crate) use query_objects;

/// Records objects that were found in an upload, each with its path. Returns the stored objects, and whether
/// the tenant had the same bytes before and they need no work: then nothing changes.
pub async fn record_found(
    tx: &mut OwnerTx,
    upload: UploadId,
    found: &[(&str, &NewObject)],
) -> Result<Vec<(ObjectRow, bool)>> {
    let clean = |text: &str| text.replace('\0', "\u{FFFD}");
    let row = |(_, new): &(&str, &NewObject)| {
        json!({
            "content_hash": format!("\\x{}", new.content_hash),
            "debug_id": new.debug_id.map(DebugId::uuid),
            "name": clean(&new.name),
            "arch": clean(&new.arch),
            "kind": clean(&new.kind),
            "has_dwarf": new.has_dwarf,
            "has_symtab": new.has_symtab,
            "has_exports": new.has_exports,
            "has_sources": new.has_sources,
            "quality": Quality::from_parts(new.has_dwarf, new.has_symtab, new.has_exports).rank(),
            "size": to_row(new.size),
        })
    };
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO objects (tenant, content_hash, debug_id, name, arch, kind, has_dwarf, has_symtab, has_exports,
                              has_sources, quality, size, status, created_at, updated_at)
         SELECT $1, o.content_hash, o.debug_id, o.name, o.arch, o.kind, o.has_dwarf, o.has_symtab, o.has_exports,
                o.has_sources, o.quality, o.size, 'queued', $3, $3
         FROM jsonb_populate_recordset(NULL::objects, $2) AS o ORDER BY o.content_hash ON CONFLICT DO NOTHING",
        tenant,
        found.iter().map(row).collect::<serde_json::Value>(),
        now
    )
    .execute(&mut *connection)
    .await?;
    let hashes: Vec<Vec<u8>> = found.iter().map(|(_, new)| new.content_hash.0.to_vec()).collect();
    let rows = query_objects!("WHERE tenant = $1 AND content_hash = ANY ($2)", tenant, &hashes)
        .fetch_all(&mut *connection)
        .await?;
    let rows: BTreeMap<ContentHash, ObjectRow> =
        rows.into_iter().map(|row| (row.content_hash, row)).collect();
    // A queued object is new here, or still has to be built.
    let has_work = |object: &ObjectRow| {
        matches!(object.status, ObjectStatus::Queued | ObjectStatus::Building | ObjectStatus::TooComplex)
    };
    let of = |(_, new): &(&str, &NewObject)| {
        let object = rows.get(&new.content_hash);
        let object = object.ok_or_else(|| StoreError::corrupt("objects", "a row that vanished"))?;
        Ok((object.clone(), !has_work(object)))
    };
    let objects: Vec<(ObjectRow, bool)> = found.iter().map(of).collect::<Result<_>>()?;
    let paths: Vec<String> = found.iter().map(|(path, _)| clean(path)).collect();
    let known: Vec<bool> = objects.iter().map(|(_, known)| *known).collect();
    // An attempt that died may have left the row: its values stay.
    sqlx::query!(
        "INSERT INTO upload_objects (tenant, upload_id, content_hash, path, known)
         SELECT $1, $2, f.* FROM unnest($3::bytea[], $4::text[], $5::boolean[]) AS f ON CONFLICT DO NOTHING",
        tenant,
        upload as UploadId,
        &hashes,
        &paths,
        &known
    )
    .execute(connection)
    .await?;
    Ok(objects)
}

/// Deletes the objects of an upload that failed before they were built, unless another upload that is not
/// over has them too; jobs delete their stored files. Call it under [`crate::usage::lock_usage`], so that no upload
/// finds them in between. Returns their number.
pub async fn give_up(tx: &mut OwnerTx, upload: UploadId) -> Result<usize> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"DELETE FROM objects o
         WHERE tenant = $1 AND status IN ('queued', 'building')
           AND content_hash IN (SELECT content_hash FROM upload_objects WHERE tenant = $1 AND upload_id = $2)
           AND NOT EXISTS (
               SELECT FROM upload_objects b JOIN uploads u ON u.tenant = b.tenant AND u.id = b.upload_id
               WHERE b.tenant = $1 AND b.content_hash = o.content_hash AND b.upload_id <> $2
                 AND u.status IN ('receiving', 'queued', 'building'))
         RETURNING debug_id AS "debug_id: DebugIdColumn", content_hash AS "content_hash: HashColumn""#,
        tenant,
        upload as UploadId
    )
    .fetch_all(connection)
    .await?;
    let count = rows.len();
    // Objects without a debug id have no files under one.
    let mut stored: BTreeMap<DebugId, Vec<ContentHash>> = BTreeMap::new();
    for row in rows {
        let debug_id = row.debug_id.map_or(DebugId([0; 16]), DebugId::from);
        stored.entry(debug_id).or_default().push(row.content_hash.into());
    }
    let purge = |(debug_id, objects)| Work::Purge { debug_id, objects, generation: 0 };
    let works: Vec<Work> = stored.into_iter().map(purge).collect();
    jobs::add_all(tx, &works, Duration::ZERO).await?;
    Ok(count)
}

/// Returns those of these objects that the owner does not have.
pub async fn find_missing(tx: &mut OwnerTx, objects: &[ContentHash]) -> Result<Vec<ContentHash>> {
    let hashes: Vec<Vec<u8>> = objects.iter().map(|hash| hash.0.to_vec()).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_scalar!(
        r#"SELECT w.hash AS "hash!: HashColumn" FROM unnest($2::bytea[]) AS w (hash)
           WHERE NOT EXISTS (SELECT FROM objects o WHERE o.tenant = $1 AND o.content_hash = w.hash)"#,
        tenant,
        &hashes
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(ContentHash::from).collect())
}

/// Returns objects of the transaction's owner with a symcache in a format older than `version`, with `all`
/// those of any, or that were too complex to build, in the order of their hashes, those after `after`.
pub async fn to_rebuild(
    tx: &mut OwnerTx,
    version: u32,
    all: bool,
    after: Option<&ContentHash>,
    limit: u32,
) -> Result<Vec<ObjectRow>> {
    let (connection, tenant, _) = tx.parts();
    Ok(query_objects!(
        "WHERE tenant = $1 AND (status = 'ready' AND (symcache_version < $2 OR $5) OR status = 'too_complex')
           AND content_hash > $3
         ORDER BY content_hash LIMIT $4",
        tenant,
        to_row32(version),
        after.map_or(&[][..], |after| after.0.as_slice()),
        i64::from(limit),
        all
    )
    .fetch_all(connection)
    .await?)
}

/// Records that a builder has begun with an object.
pub async fn mark_building(tx: &mut OwnerTx, content_hash: &ContentHash) -> Result<()> {
    update_status(tx, content_hash, ObjectStatus::Building, None, None, None).await
}

/// Records that an object has its symcache. The quality is the one that the build found, which may be less
/// than the sections promised; `left_out` names the parts that could not be read.
pub async fn mark_ready(
    tx: &mut OwnerTx,
    content_hash: &ContentHash,
    quality: Quality,
    left_out: Option<&str>,
    symcache: &Symcache,
) -> Result<()> {
    update_status(tx, content_hash, ObjectStatus::Ready, left_out, Some(quality), Some(symcache)).await
}

/// Records that no symcache can be built from an object ([`ObjectStatus::Malformed`],
/// [`ObjectStatus::Unsupported`] or [`ObjectStatus::TooComplex`]), and why.
pub async fn mark_rejected(
    tx: &mut OwnerTx,
    content_hash: &ContentHash,
    status: ObjectStatus,
    reason: &str,
) -> Result<()> {
    update_status(tx, content_hash, status, Some(reason), None, None).await
}

async fn update_status(
    tx: &mut OwnerTx,
    content_hash: &ContentHash,
    status: ObjectStatus,
    reason: Option<&str>,
    quality: Option<Quality>,
    symcache: Option<&Symcache>,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE objects SET status = $3, reason = $4, quality = coalesce($5, quality),
                            has_dwarf = CASE WHEN $5 IS NULL OR kind = 'source_map' THEN has_dwarf ELSE $5 >= 3 END,
                            symcache_size = $6,
                            symcache_hash = $7, symcache_version = $8, updated_at = $9
         WHERE tenant = $1 AND content_hash = $2",
        tenant,
        content_hash.0.as_slice(),
        status.as_str(),
        reason.map(|text| text.replace('\0', "\u{FFFD}")),
        quality.map(Quality::rank),
        symcache.map(|s| to_row(s.size)),
        symcache.map(|s| s.sha256.0.to_vec()),
        symcache.map(|s| to_row32(s.version)),
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
