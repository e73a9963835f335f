//! `POST /api/0/organizations/{org}/chunk-upload/`: chunks on their way to object storage.

use super::hash::Sha1Hash;
use super::options::{MAX_CHUNK_BYTES, MAX_REQUEST_BYTES};
use super::store::{self, NewChunk, chunk_key};
use crate::whole_file::{FileSender, acquire_upload_permit};
use axum::body::Body;
use axum::http::HeaderMap;
use bytes::{Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use futures::{StreamExt, TryStreamExt, stream};
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Capacity;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::{
    Chunks, Parts, SymbolsWrite, announced_length, check_quota, check_symbol_quota, packed_limit,
    parse_boundary, pass_over, remove_object, run_detached, stream_field,
};
use unslide_api::problem::{Kind, Problem};
use unslide_artifacts::Put;
use unslide_model::TenantId;
use unslide_store::{Uuid, segments, usage};

/// Limit of a request's chunks together, unpacked: one chunk more than the client should send.
const UNPACKED_LIMIT: u64 = MAX_REQUEST_BYTES + MAX_CHUNK_BYTES;
/// Bytes of the form around the chunks.
const FORM_BYTES_LIMIT: u64 = 1 << 20;
/// The most parts of a request. A client repeats equal chunks, and counts them.
const MAX_PARTS: usize = 256;
/// The most chunks of a tenant at a time, against floods of tiny ones.
const MAX_TENANT_CHUNKS: u64 = 100_000;
/// How long a request with chunks may take.
const CHUNK_REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of chunks that are held in memory until they are put.
const GROUP_BYTES: usize = 8 << 20;
/// Chunks that are put at the same time.
const PUT_CONCURRENCY: usize = 4;

/// Stores the chunks of a request. They can be read once this returns.
///
/// # Errors
/// A chunk has another hash than its name, a limit is reached, or a server fails.
pub async fn store_chunks(
    storage: &Arc<Storage>,
    access: &Access<SymbolsWrite>,
    headers: &HeaderMap,
    body: Body,
) -> Result<(), Problem> {
    let sender = FileSender::from_access(&storage.capacity, access);
    let boundary = parse_boundary(headers, Kind::InvalidUpload)?
        .ok_or_else(|| Problem::new(Kind::InvalidUpload, "send the chunks as multipart/form-data"))?;
    let permit = acquire_upload_permit(&storage.capacity, access).await?;
    let body_limit = packed_limit(UNPACKED_LIMIT) + FORM_BYTES_LIMIT;
    let body = Chunks::new(headers, body, body_limit, storage.capacity.limits.client_pace())?;
    check_quota(storage, &sender.owner, announced_length(headers), sender.quota.symbol_bytes).await?;
    let parts = Parts::new(body.into_stream(), boundary, Kind::InvalidUpload);
    let (storage, tenant, limit) = (storage.clone(), access.tenant().clone(), sender.quota.symbol_bytes);
    // In a task of its own, so that a client that leaves does not end it between an object and its row.
    run_detached(Box::pin(async move {
        let _permit = permit;
        let mut received = ReceivedChunks::new(&storage, &tenant);
        let stored = tokio::time::timeout(CHUNK_REQUEST_TIMEOUT, received.store_parts(parts, limit)).await;
        let stored = stored.unwrap_or_else(|_| {
            let seconds = CHUNK_REQUEST_TIMEOUT.as_secs();
            Err(Problem::new(Kind::BodyTimeout, format!("a request with chunks may take {seconds} s")))
        });
        if stored.is_err() {
            received.remove_objects().await;
        }
        stored
    }))
    .await
}

/// The chunks of one request.
struct ReceivedChunks<'c> {
    storage: &'c Storage,
    tenant: &'c TenantId,
    /// Chunks that are read and not put.
    group: BTreeMap<Sha1Hash, Bytes>,
    group_bytes: usize,
    /// Chunks that are put and have no row.
    stored: Vec<NewChunk>,
}

impl<'c> ReceivedChunks<'c> {
    fn new(storage: &'c Storage, tenant: &'c TenantId) -> ReceivedChunks<'c> {
        ReceivedChunks { storage, tenant, group: BTreeMap::new(), group_bytes: 0, stored: Vec::new() }
    }

    async fn store_parts(&mut self, mut parts: Parts, limit: Option<u64>) -> Result<(), Problem> {
        let (mut number, mut left) = (0, UNPACKED_LIMIT);
        while let Some(field) = parts.next().await? {
            number += 1;
            if number > MAX_PARTS {
                let detail = format!("more than {MAX_PARTS} parts; send the chunks in several requests");
                return Err(Problem::new(Kind::TooLarge, detail));
            }
            let Some(form) = ChunkForm::from_field(field.name()) else {
                pass_over(field, Kind::InvalidUpload).await?;
                continue;
            };
            let announced = announced_hash(field.file_name())?;
            let chunk = read_chunk(&self.storage.capacity, self.tenant, field, form, announced).await?;
            left = left.checked_sub(chunk.len() as u64).ok_or_else(|| {
                let detail =
                    format!("the chunks of a request, unpacked: the limit is {MAX_REQUEST_BYTES} bytes");
                Problem::new(Kind::TooLarge, detail)
            })?;
            self.group_bytes += chunk.len();
            self.group.insert(announced, chunk);
            if self.group_bytes >= GROUP_BYTES {
                self.put_group().await?;
            }
        }
        self.put_group().await?;
        self.add_rows(limit).await
    }

    /// Puts the chunks that were read and are not stored yet.
    async fn put_group(&mut self) -> Result<(), Problem> {
        let mut group = std::mem::take(&mut self.group);
        self.group_bytes = 0;
        if group.is_empty() {
            return Ok(());
        }
        let hashes: Vec<Sha1Hash> = group.keys().copied().collect();
        let mut tx = self.storage.tenant(self.tenant).await?;
        let known = store::find_chunks(&mut tx, &hashes).await?;
        // A chunk that the request repeats would be stored twice and count once.
        let is_stored = |sha1: &Sha1Hash| self.stored.iter().any(|chunk| chunk.sha1 == *sha1);
        group.retain(|sha1, _| !known.get(sha1).is_some_and(|chunk| chunk.is_lasting) && !is_stored(sha1));
        if group.is_empty() {
            return Ok(());
        }
        let object_id = segments::new_id(&mut tx).await?;
        let keys: Vec<_> = group.keys().map(|sha1| chunk_key(self.tenant, object_id, *sha1)).collect();
        store::expect_chunks(&mut tx, &keys).await?;
        tx.commit().await?;
        let new =
            group.iter().map(|(sha1, bytes)| NewChunk { sha1: *sha1, object_id, size: bytes.len() as u64 });
        self.stored.extend(new);
        self.put_objects(group, object_id).await
    }

    async fn put_objects(&self, group: BTreeMap<Sha1Hash, Bytes>, object_id: Uuid) -> Result<(), Problem> {
        let puts = stream::iter(group).map(|(sha1, bytes)| {
            let (key, objects) = (chunk_key(self.tenant, object_id, sha1), &self.storage.objects);
            async move { objects.put(&key, bytes, &Put::default()).await }
        });
        puts.buffer_unordered(PUT_CONCURRENCY).try_for_each(|_| async { Ok(()) }).await?;
        Ok(())
    }

    /// Records the chunks, if they are within the tenant's limits together with everything else.
    async fn add_rows(&mut self, limit: Option<u64>) -> Result<(), Problem> {
        if self.stored.is_empty() {
            return Ok(());
        }
        let size = self.stored.iter().map(|chunk| chunk.size).sum();
        let mut tx = self.storage.tenant(self.tenant).await?;
        let used = usage::hold_symbols(&mut tx).await?;
        if let Some(limit) = limit {
            check_symbol_quota(&self.storage.capacity, used, size, limit)?;
        }
        if store::count_chunks(&mut tx).await? + self.stored.len() as u64 > MAX_TENANT_CHUNKS {
            let detail = format!(
                "the tenant has {MAX_TENANT_CHUNKS} chunks, which is the limit; each is deleted a day after it came"
            );
            return Err(Problem::new(Kind::TooLarge, detail));
        }
        let added = store::add_chunks(&mut tx, &self.stored).await?;
        tx.commit().await?;
        // Another request was faster with the others.
        self.stored.retain(|chunk| !added.contains(&chunk.sha1));
        self.remove_objects().await;
        Ok(())
    }

    /// Removes objects without rows; what fails here goes later, because it is condemned.
    async fn remove_objects(&mut self) {
        for chunk in std::mem::take(&mut self.stored) {
            remove_object(self.storage, &chunk_key(self.tenant, chunk.object_id, chunk.sha1)).await;
        }
    }
}

/// The form of a chunk in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkForm {
    Raw,
    Gzip,
}

impl ChunkForm {
    fn from_field(name: Option<&str>) -> Option<ChunkForm> {
        match name? {
            "file" => Some(ChunkForm::Raw),
            "file_gzip" => Some(ChunkForm::Gzip),
            _ => None,
        }
    }
}

fn announced_hash(name: Option<&str>) -> Result<Sha1Hash, Problem> {
    let name = name.unwrap_or_default();
    name.parse().map_err(|error| {
        Problem::new(
            Kind::InvalidUpload,
            format!("filename {name:.60}: {error}; a chunk is named by its SHA-1"),
        )
    })
}

/// Reads a chunk, unpacks it to at most [`MAX_CHUNK_BYTES`], and compares its hash, within the tenant's share of the CPU.
async fn read_chunk(
    capacity: &Capacity,
    tenant: &TenantId,
    field: multer::Field<'static>,
    form: ChunkForm,
    announced: Sha1Hash,
) -> Result<Bytes, Problem> {
    let mut packed = Box::pin(stream_field(field, Kind::InvalidUpload));
    let mut bytes = BytesMut::new();
    // The limit of what is sent raw is checked once more with the unpacked bytes.
    let limit = packed_limit(MAX_CHUNK_BYTES);
    while let Some(piece) = packed.try_next().await? {
        if bytes.len() as u64 + piece.len() as u64 > limit {
            return Err(too_large(announced));
        }
        bytes.extend_from_slice(&piece);
    }
    let bytes = bytes.freeze();
    capacity.cpu.run_for(tenant, move || unpack_chunk(bytes, form, announced)).await?
}

fn too_large(announced: Sha1Hash) -> Problem {
    Problem::new(Kind::TooLarge, format!("the chunk {announced}: the limit is {MAX_CHUNK_BYTES} bytes"))
}

fn unpack_chunk(packed: Bytes, form: ChunkForm, announced: Sha1Hash) -> Result<Bytes, Problem> {
    let bytes = match form {
        ChunkForm::Raw => packed,
        ChunkForm::Gzip => {
            let mut unpacked = Vec::new();
            let mut decoder = MultiGzDecoder::new(&packed[..]).take(MAX_CHUNK_BYTES + 1);
            decoder.read_to_end(&mut unpacked).map_err(|error| {
                Problem::new(
                    Kind::InvalidUpload,
                    format!("the chunk {announced}: damaged gzip data: {error}"),
                )
            })?;
            unpacked.into()
        }
    };
    if bytes.len() as u64 > MAX_CHUNK_BYTES {
        return Err(too_large(announced));
    }
    let found = Sha1Hash::from_digest(Sha1::new().chain_update(&bytes));
    if found != announced {
        let detail = format!("the chunk {announced} arrived with the SHA-1 {found}");
        return Err(Problem::new(Kind::ChecksumMismatch, detail));
    }
    if bytes.is_empty() {
        return Err(Problem::new(Kind::InvalidUpload, "a chunk is empty"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    /// Bytes that no packing makes shorter.
    fn random_bytes(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[7]
        })
        .take(length)
        .collect()
    }

    #[test]
    fn a_full_chunk_that_packing_makes_longer_is_within_the_limit() {
        let chunk = random_bytes(usize::try_from(MAX_CHUNK_BYTES).unwrap());
        let sha1 = Sha1Hash::from_digest(Sha1::new().chain_update(&chunk));
        for level in [Compression::none(), Compression::fast(), Compression::best()] {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(&chunk).unwrap();
            let packed = encoder.finish().unwrap();
            assert!(packed.len() as u64 > MAX_CHUNK_BYTES);
            assert!(packed.len() as u64 <= packed_limit(MAX_CHUNK_BYTES));
            assert_eq!(unpack_chunk(packed.into(), ChunkForm::Gzip, sha1).unwrap().len(), chunk.len());
        }
        let longer = random_bytes(chunk.len() + 1);
        let raw = unpack_chunk(longer.into(), ChunkForm::Raw, sha1);
        assert_eq!(raw.unwrap_err().kind(), Kind::TooLarge);
    }

    #[test]
    fn a_chunk_is_known_by_its_field_and_named_by_its_hash() {
        assert_eq!(ChunkForm::from_field(Some("file_gzip")), Some(ChunkForm::Gzip));
        assert_eq!(ChunkForm::from_field(Some("file")), Some(ChunkForm::Raw));
        assert_eq!(ChunkForm::from_field(Some("other")), None);
        assert!(announced_hash(Some("a9993e364706816aba3e25717850c26c9cd0d89d")).is_ok());
        for wrong in [None, Some(""), Some("chunk")] {
            assert_eq!(announced_hash(wrong).unwrap_err().kind(), Kind::InvalidUpload);
        }
    }
}
