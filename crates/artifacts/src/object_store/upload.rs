//! Stores a stream in parts, and removes the parts if it fails.

use super::{Backend, ETag, ObjectStore, PART_BYTES, Put, StoredObject, on_backend, read_part};
use crate::StorageError;
use crate::keys::ObjectKey;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::time::timeout;
use unslide_model::ContentHash;

/// The most parts of one multipart upload. S3 accepts 10,000; this leaves some margin.
pub const MOST_PARTS: u64 = 9_500;

/// The largest part, in bytes, for limits that are no real limit, such as `u64::MAX`.
const LARGEST_PART_BYTES: usize = 64 << 20;

/// The longest time for which the sender of a failed upload waits for its abort.
const ABORT_WAIT_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn store_stream(
    store: &ObjectStore,
    key: &ObjectKey,
    mut source: impl AsyncRead + Send + Unpin,
    limit: u64,
    put: &Put,
) -> Result<StoredObject, StorageError> {
    let part_bytes =
        usize::try_from(limit / MOST_PARTS).unwrap_or(usize::MAX).clamp(PART_BYTES, LARGEST_PART_BYTES);
    let mut hash = Sha256::new();
    let first = read_part(&mut source, part_bytes, &mut hash).await?;
    let mut size = check_size(key, first.len() as u64, limit)?;
    if first.len() < part_bytes {
        let etag = store.put(key, first, put).await?;
        return Ok(StoredObject { size, sha256: ContentHash(hash.finalize().into()), etag });
    }
    let mut parts = Parts::begin_upload(store, key, put).await?;
    let sent = async {
        let mut part = first;
        while !part.is_empty() {
            // The next part is read while this one is sent.
            let (sent, next) =
                tokio::join!(parts.send_part(part), read_part(&mut source, part_bytes, &mut hash));
            sent?;
            part = next?;
            size = check_size(key, size + part.len() as u64, limit)?;
        }
        Ok(())
    }
    .await;
    match sent {
        Ok(()) => {
            let etag = parts.complete_upload(put).await?;
            Ok(StoredObject { size, sha256: ContentHash(hash.finalize().into()), etag })
        }
        Err(error) => {
            parts.abort_upload().await;
            Err(error)
        }
    }
}

fn check_size(key: &ObjectKey, size: u64, limit: u64) -> Result<u64, StorageError> {
    if size > limit { Err(StorageError::TooLarge { key: key.to_string(), limit }) } else { Ok(size) }
}

/// A multipart upload. It is aborted unless it is completed, even if its future is dropped.
struct Parts {
    store: ObjectStore,
    key: ObjectKey,
    id: Option<String>,
    tags: Vec<String>,
}

impl Parts {
    async fn begin_upload(store: &ObjectStore, key: &ObjectKey, put: &Put) -> Result<Parts, StorageError> {
        let id = on_backend!(store, begin_parts(key, put))?;
        Ok(Parts { store: store.clone(), key: key.clone(), id: Some(id), tags: Vec::new() })
    }

    async fn send_part(&mut self, part: Bytes) -> Result<(), StorageError> {
        let id = self.id.as_deref().unwrap_or_default();
        let tag = self.store.put_part(&self.key, id, self.tags.len() + 1, part).await?;
        self.tags.push(tag);
        Ok(())
    }

    async fn complete_upload(mut self, put: &Put) -> Result<ETag, StorageError> {
        let id = self.id.clone().unwrap_or_default();
        let done = on_backend!(self.store, complete_parts(&self.key, &id, &self.tags, put));
        match done {
            Ok(etag) => {
                self.id = None;
                Ok(etag)
            }
            Err(error) => {
                self.abort_upload().await;
                Err(error)
            }
        }
    }

    /// Aborts the upload. Waits only for a moment: a store that does not answer must not hold the caller back, and
    /// the abort goes on without it.
    async fn abort_upload(&mut self) {
        if let Some(id) = self.id.take() {
            let (store, key) = (self.store.clone(), self.key.clone());
            let abort = tokio::spawn(async move { abort_multipart(&store, &key, &id).await });
            let _ = timeout(ABORT_WAIT_TIMEOUT, abort).await;
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let (store, key) = (self.store.clone(), self.key.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { abort_multipart(&store, &key, &id).await });
        }
    }
}

async fn abort_multipart(store: &ObjectStore, key: &ObjectKey, id: &str) {
    let aborted = on_backend!(store, abort_parts(key, id));
    if let Err(error) = aborted {
        // The bucket's lifecycle rule for unfinished uploads removes the rest.
        tracing::warn!(object.key = %key, error = %error, "an unfinished upload could not be aborted");
    }
}
