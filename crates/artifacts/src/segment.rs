//! Segments: objects that hold the bodies of many stored reports of one tenant and day.
//!
//! A segment is written once and never changed. Each body is compressed and encrypted by itself, in a
//! frame, with a key of its own that lies in the report's row: deleting the row makes the body unreadable
//! at once. The encryption authenticates the body's owner, so that a wrong body is never taken for the
//! right one. `docs/formats.md` has the layout and its history; [`VERSION`] goes up with each change.

use crate::keys::ObjectKey;
use crate::{ObjectStore, StorageError};
use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SystemRandom, generate};
use unslide_model::{BodyKey, ReportId, TenantId};

/// The version that is written. Readers take this one only.
pub const VERSION: u16 = 1;

/// The first bytes of a segment; its frames follow one behind the other.
pub const HEADER: [u8; 10] = *b"UNSLDSEG\x01\x00";

/// The largest body that is put into a segment, in bytes of JSON.
pub const MAX_BODY_BYTES: usize = 256 << 20;

/// The largest frame that a reader fetches: a body that compression made no smaller.
pub const MAX_FRAME_BYTES: u64 = (256 << 20) + (2 << 20);

/// Levels above cost several times the time for a tenth of the bytes.
const ZSTD_LEVEL: i32 = 3;
/// The body's length before the compressed body.
const SIZE_BYTES: usize = 8;

/// Whose body a frame holds. A frame opens for no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyId {
    /// The tenant.
    pub tenant: TenantId,
    /// The report's id.
    pub report_id: ReportId,
    /// Which of the reports with this id, from 0.
    pub variant: u32,
    /// The body's revision, from 1.
    pub revision: u32,
}

impl BodyId {
    fn associated_data(&self) -> Vec<u8> {
        let mut data = Vec::from(VERSION.to_le_bytes());
        data.extend_from_slice(&self.report_id.0);
        data.extend_from_slice(&self.variant.to_le_bytes());
        data.extend_from_slice(&self.revision.to_le_bytes());
        data.extend_from_slice(self.tenant.as_str().as_bytes());
        data
    }
}

/// Why a body could not be put into a frame, or taken out of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The bytes are not those that were written, or not of this report.
    #[error("the frame is damaged or of another report")]
    Damaged,
    /// The body has more bytes than the reader takes.
    #[error("the body has {size} bytes; at most {limit} are taken")]
    TooLarge {
        /// Bytes that it says it has.
        size: u64,
        /// Bytes that the reader takes.
        limit: usize,
    },
    /// The body can't be compressed or decompressed.
    #[error("the body can't be compressed or decompressed")]
    Compression,
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes for a key")]
    Random,
}

/// Encrypts a body. Returns its frame and the key that opens it, which no other frame has. Work for the
/// CPU pool.
///
/// # Errors
/// [`SegmentError`] where memory or random bytes are wanting.
pub fn seal(id: &BodyId, json: &[u8]) -> Result<(Vec<u8>, BodyKey), SegmentError> {
    let key = generate::<[u8; 32]>(&SystemRandom::new()).map_err(|_| SegmentError::Random)?.expose();
    let mut frame = u64::try_from(json.len()).unwrap_or(u64::MAX).to_le_bytes().to_vec();
    let compressed = zstd::bulk::compress(json, ZSTD_LEVEL).map_err(|_| SegmentError::Compression)?;
    frame.extend_from_slice(&compressed);
    let cipher = cipher(&key)?;
    let sealed = cipher.seal_in_place_append_tag(nonce(), Aad::from(id.associated_data()), &mut frame);
    sealed.map_err(|_| SegmentError::Damaged)?;
    Ok((frame, BodyKey(key)))
}

/// The JSON in the frame of this body, at most `limit` bytes. Work for the CPU pool where it is large.
///
/// # Errors
/// [`SegmentError::Damaged`] for anything but the frame that was written of it with this key;
/// [`SegmentError::TooLarge`] before memory is taken.
pub fn open(id: &BodyId, key: &BodyKey, frame: Bytes, limit: usize) -> Result<Vec<u8>, SegmentError> {
    let mut frame = Vec::from(frame);
    let plain = cipher(&key.0)?
        .open_in_place(nonce(), Aad::from(id.associated_data()), &mut frame)
        .map_err(|_| SegmentError::Damaged)?;
    let (size, compressed) = plain.split_first_chunk::<SIZE_BYTES>().ok_or(SegmentError::Damaged)?;
    let size = u64::from_le_bytes(*size);
    let wanted = usize::try_from(size).ok().filter(|size| *size <= limit);
    let wanted = wanted.ok_or(SegmentError::TooLarge { size, limit })?;
    let json = zstd::bulk::decompress(compressed, wanted).map_err(|_| SegmentError::Compression)?;
    if json.len() == wanted { Ok(json) } else { Err(SegmentError::Compression) }
}

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, SegmentError> {
    UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map_err(|_| SegmentError::Damaged)
}

/// Each key encrypts one frame, so that one nonce does for all.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// The bytes of one frame, for [`open`]; `None` where the segment is gone. What is cut off, or cannot be a
/// frame, comes back shorter than asked for, which no frame opens as.
///
/// # Errors
/// As [`ObjectStore::get_range`], but a range outside the object is none.
pub async fn fetch(
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
