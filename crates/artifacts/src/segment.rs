//! Segments: objects that hold the bodies of many stored reports of one tenant and day.
//!
//! A segment is written once and never changed. Each body is compressed and encrypted separately, in a
//! frame, with its own key. The key lies in the report's row: deleting the row makes the body unreadable
//! at once. The encryption authenticates the body's owner, so that a wrong body is never mistaken for the
//! right one. `docs/formats.md` has the layout and its history; [`SEGMENT_VERSION`] increases with each change.

use crate::keys::ObjectKey;
use crate::{ObjectStore, StorageError};
use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SystemRandom, generate};
use unslide_model::{BodyKey, ReportId, TenantId};

/// The version that is written. Readers accept only this one.
pub const SEGMENT_VERSION: u16 = 1;

/// The first bytes of a segment. The frames follow without gaps.
pub const SEGMENT_HEADER: [u8; 10] = *b"UNSLDSEG\x01\x00";

/// The largest body that a segment accepts, in bytes of JSON.
pub const MAX_BODY_BYTES: usize = 256 << 20;

/// The largest frame that a reader fetches, in bytes: a body that compression did not shrink.
pub const MAX_FRAME_BYTES: u64 = (256 << 20) + (2 << 20);

/// Higher levels cost several times the time for a tenth fewer bytes.
const ZSTD_LEVEL: i32 = 3;
/// Size of the body's length, which precedes the compressed body.
const SIZE_BYTES: usize = 8;

/// Owner and revision of the body in a frame. A frame opens only with the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyId {
    /// The tenant.
    pub tenant: TenantId,
    /// The report's id.
    pub report_id: ReportId,
    /// Number of the report among those with this id, from 0.
    pub variant: u32,
    /// The body's revision, from 1.
    pub revision: u32,
}

impl BodyId {
    fn associated_data(&self) -> Vec<u8> {
        let mut data = Vec::from(SEGMENT_VERSION.to_le_bytes());
        data.extend_from_slice(&self.report_id.0);
        data.extend_from_slice(&self.variant.to_le_bytes());
        data.extend_from_slice(&self.revision.to_le_bytes());
        data.extend_from_slice(self.tenant.as_str().as_bytes());
        data
    }
}

/// Reason why a body could not be sealed into a frame, or opened from one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The bytes differ from those that were written, or belong to another report.
    #[error("the frame is damaged or of another report")]
    Damaged,
    /// The body exceeds the reader's limit.
    #[error("the body has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// The body's declared size in bytes.
        size: u64,
        /// The reader's limit in bytes.
        limit: usize,
    },
    /// The body cannot be compressed or decompressed.
    #[error("the body cannot be compressed or decompressed")]
    Compression,
    /// The operating system provides no random bytes.
    #[error("the operating system gives no random bytes for a key")]
    Random,
}

/// Encrypts a body. Returns its frame, and the key that opens this frame only. CPU-bound: run it on the
/// CPU pool.
///
/// # Errors
/// Returns [`SegmentError`] if memory or random bytes are not available.
pub fn seal_frame(id: &BodyId, json: &[u8]) -> Result<(Vec<u8>, BodyKey), SegmentError> {
    let key = generate::<[u8; 32]>(&SystemRandom::new()).map_err(|_| SegmentError::Random)?.expose();
    let mut frame = u64::try_from(json.len()).unwrap_or(u64::MAX).to_le_bytes().to_vec();
    let compressed = zstd::bulk::compress(json, ZSTD_LEVEL).map_err(|_| SegmentError::Compression)?;
    frame.extend_from_slice(&compressed);
    let cipher = build_cipher(&key)?;
    let sealed =
        cipher.seal_in_place_append_tag(constant_nonce(), Aad::from(id.associated_data()), &mut frame);
    sealed.map_err(|_| SegmentError::Damaged)?;
    Ok((frame, BodyKey(key)))
}

/// Returns the JSON in the frame of this body, at most `limit` bytes. CPU-bound: run it on the CPU pool if
/// the frame is large.
///
/// # Errors
/// Returns [`SegmentError::Damaged`] unless this is the frame that was written for this body with this
/// key. Returns [`SegmentError::TooLarge`] before it allocates memory.
pub fn open_frame(id: &BodyId, key: &BodyKey, frame: Bytes, limit: usize) -> Result<Vec<u8>, SegmentError> {
    let mut frame = Vec::from(frame);
    let plain = build_cipher(&key.0)?
        .open_in_place(constant_nonce(), Aad::from(id.associated_data()), &mut frame)
        .map_err(|_| SegmentError::Damaged)?;
    let (size, compressed) = plain.split_first_chunk::<SIZE_BYTES>().ok_or(SegmentError::Damaged)?;
    let size = u64::from_le_bytes(*size);
    let wanted = usize::try_from(size).ok().filter(|size| *size <= limit);
    let wanted = wanted.ok_or(SegmentError::TooLarge { size, limit })?;
    let json = zstd::bulk::decompress(compressed, wanted).map_err(|_| SegmentError::Compression)?;
    if json.len() == wanted { Ok(json) } else { Err(SegmentError::Compression) }
}

fn build_cipher(key: &[u8; 32]) -> Result<LessSafeKey, SegmentError> {
    UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map_err(|_| SegmentError::Damaged)
}

/// Each key encrypts only one frame, so that a constant nonce is safe.
fn constant_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Fetches the bytes of one frame, for [`open_frame`]; `None` if the segment does not exist. A truncated or
/// impossible frame comes back shorter than requested, and [`open_frame`] rejects it.
///
/// # Errors
/// Returns the errors of [`ObjectStore::get_range`], except for a range outside the object.
pub async fn fetch_frame(
    objects: &ObjectStore,
    key: &ObjectKey,
    offset: u64,
    length: u64,
) -> Result<Option<Bytes>, StorageError> {
    let end = offset.checked_add(length).filter(|_| (1..=MAX_FRAME_BYTES).contains(&length));
    let Some(end) = end else { return Ok(Some(Bytes::new())) };
    match objects.get_range(key, offset..end).await {
        Err(StorageError::Range { .. }) => Ok(Some(Bytes::new())),
        other => other,
    }
}
