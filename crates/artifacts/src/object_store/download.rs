//! Bytes of an object as they arrive, compared with the size that the store announced.

use super::gate::{RequestPermit, charge_bytes};
use super::{FetchedFile, FetchedObject, Head, YIELD_STEP_BYTES};
use crate::StorageError;
use crate::keys::ObjectKey;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use unslide_model::ContentHash;

/// A backend's answer to a GET.
pub(crate) type Opened = (Head, DownloadBody);

pub(crate) enum DownloadBody {
    #[cfg(feature = "s3")]
    S3(aws_sdk_s3::primitives::ByteStream),
    #[cfg(feature = "testkit")]
    Memory(HeldBytes),
}

/// The bytes of a get, which arrive when their hold is dropped.
#[cfg(feature = "testkit")]
pub(crate) struct HeldBytes {
    pub(super) bytes: Option<Bytes>,
    pub(super) open: Option<tokio::sync::watch::Receiver<bool>>,
}

#[cfg(feature = "testkit")]
impl HeldBytes {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(open) = &mut self.open {
            open.wait_for(|open| *open).await.ok();
        }
        self.bytes.take()
    }
}

/// An object that is being read. It holds one of the concurrent requests until it is dropped.
pub struct Download {
    /// Size, state and metadata.
    pub head: Head,
    key: ObjectKey,
    body: DownloadBody,
    _permit: RequestPermit,
}

impl Download {
    pub(super) fn new(key: ObjectKey, head: Head, body: DownloadBody, permit: RequestPermit) -> Download {
        Download { head, key, body, _permit: permit }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        let chunk = match &mut self.body {
            #[cfg(feature = "s3")]
            DownloadBody::S3(stream) => {
                stream.next().await.transpose().map_err(|error| StorageError::Transient {
                    operation: "get",
                    key: self.key.to_string(),
                    detail: error.to_string(),
                })?
            }
            #[cfg(feature = "testkit")]
            DownloadBody::Memory(held) => held.next().await,
        };
        if let Some(bytes) = &chunk {
            charge_bytes(&self.key, bytes.len() as u64);
        }
        Ok(chunk)
    }

    /// Returns the next bytes, after the first `size`. Returns `None` at the end, if the store
    /// announced that size.
    async fn next_of(&mut self, size: &mut u64, limit: u64) -> Result<Option<Bytes>, StorageError> {
        if self.head.size > limit {
            return Err(self.too_large(limit));
        }
        let Some(chunk) = self.next().await? else {
            return if *size == self.head.size { Ok(None) } else { Err(self.cut_off(*size)) };
        };
        *size += chunk.len() as u64;
        if *size > limit { Err(self.too_large(limit)) } else { Ok(Some(chunk)) }
    }

    fn too_large(&self, limit: u64) -> StorageError {
        StorageError::TooLarge { key: self.key.to_string(), limit }
    }

    fn cut_off(&self, size: u64) -> StorageError {
        let detail = format!("{size} bytes arrived, but {} were announced", self.head.size);
        StorageError::Transient { operation: "get", key: self.key.to_string(), detail }
    }

    pub(super) async fn into_object(mut self, limit: u64) -> Result<FetchedObject, StorageError> {
        let mut size = 0;
        let mut bytes = Vec::new();
        while let Some(chunk) = self.next_of(&mut size, limit).await? {
            if bytes.is_empty() {
                bytes.reserve_exact(usize::try_from(self.head.size).map_err(|_| self.too_large(limit))?);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(FetchedObject { head: self.head, bytes: bytes.into() })
    }

    /// Writes the bytes to an empty file, at most `limit`, and returns their hash. The file is complete
    /// only if this succeeds.
    ///
    /// # Errors
    /// Returns [`StorageError::TooLarge`] past the limit, [`StorageError::File`], or a transient error
    /// if the bytes end early.
    pub async fn write_to(mut self, mut file: File, limit: u64) -> Result<FetchedFile, StorageError> {
        let mut hash = Sha256::new();
        let mut size = 0;
        while let Some(chunk) = self.next_of(&mut size, limit).await? {
            for step in chunk.chunks(YIELD_STEP_BYTES) {
                hash.update(step);
                file.write_all(step).await.map_err(StorageError::File)?;
            }
        }
        file.flush().await.map_err(StorageError::File)?;
        Ok(FetchedFile { head: self.head, sha256: ContentHash(hash.finalize().into()) })
    }
}
