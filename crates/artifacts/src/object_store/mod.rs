//! Object storage: S3, or, for tests, memory with failure switches. Both pass the same suite.

mod download;
mod gate;
#[cfg(feature = "testkit")]
mod memory;
#[cfg(feature = "s3")]
mod s3;
mod upload;

use crate::keys::{ObjectKey, Prefix};
use crate::{Settings, StorageError};
use bytes::Bytes;
pub use download::Download;
pub(crate) use download::Opened;
use gate::RequestGate;
pub use gate::StoreStats;
#[cfg(feature = "testkit")]
pub use memory::{Fault, Hold, Memory, Operation};
#[cfg(feature = "s3")]
use s3::S3;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use time::OffsetDateTime;
use tokio::io::{AsyncRead, AsyncReadExt};
use unslide_model::ContentHash;
pub use upload::MOST_PARTS;

/// Size of one part of a multipart upload. A streaming put holds at most two parts in memory. A larger
/// limit makes larger parts, because S3 accepts 10,000 of them.
pub const PART_BYTES: usize = 8 << 20;

/// Files of at least this size are stored in parts.
pub const MULTIPART_FROM: u64 = 64 << 20;

/// The store's identifier for one version of an object's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ETag(pub(crate) String);

impl ETag {
    /// Returns the tag as the store sent it, with its quotes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Condition of a put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    #[default]
    Always,
    /// Only if no object has the key (`If-None-Match: *`).
    Absent,
    /// Only if the object still has this tag (`If-Match`).
    Unchanged(ETag),
}

/// Options of a put.
#[derive(Clone, Debug, Default)]
pub struct Put {
    /// The condition.
    pub condition: Condition,
    /// User metadata; names are lower case, values are ASCII.
    pub metadata: BTreeMap<String, String>,
}

/// Facts about an object, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Size in bytes.
    pub size: u64,
    /// The version of the content.
    pub etag: ETag,
    /// Time of the write by the store's clock; `None` if the store does not say.
    pub modified: Option<OffsetDateTime>,
    /// User metadata.
    pub metadata: BTreeMap<String, String>,
}

/// An object with its bytes.
#[derive(Clone, Debug)]
pub struct FetchedObject {
    /// Size, version and metadata.
    pub head: Head,
    /// The content.
    pub bytes: Bytes,
}

/// An object that was written to a file.
#[derive(Clone, Debug)]
pub struct FetchedFile {
    /// Size, version and metadata.
    pub head: Head,
    /// The SHA-256 of the bytes that were written.
    pub sha256: ContentHash,
}

/// Result of a streaming put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Size in bytes.
    pub size: u64,
    /// The SHA-256 of the bytes, computed during the upload.
    pub sha256: ContentHash,
    /// The version of the content.
    pub etag: ETag,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingEntry {
    /// The object's key.
    pub key: ObjectKey,
    /// Size in bytes.
    pub size: u64,
    /// Time of the write by the store's clock; `None` if the store does not say.
    pub modified: Option<OffsetDateTime>,
}

/// A page of a listing, in the order of the keys.
#[derive(Clone, Debug)]
pub struct ListingPage {
    /// The objects.
    pub entries: Vec<ListingEntry>,
    /// The key after which the next page starts; none at the end.
    pub next: Option<ObjectKey>,
}

pub(crate) enum Backend {
    #[cfg(feature = "s3")]
    S3(S3),
    #[cfg(feature = "testkit")]
    Memory(Memory),
}

/// One bucket. Cheap to clone; clones share the limit on concurrent requests.
#[derive(Clone)]
pub struct ObjectStore {
    backend: Arc<Backend>,
    gate: Arc<RequestGate>,
}

/// Runs one request once it has a permit.
macro_rules! on_backend {
    ($self:expr, $name:ident ( $place:expr $(, $argument:expr)* )) => {{
        let permit = $self.gate.permit().await;
        let answer = match &*$self.backend {
            #[cfg(feature = "s3")]
            Backend::S3(s3) => s3.$name($place $(, $argument)*).await,
            #[cfg(feature = "testkit")]
            Backend::Memory(memory) => memory.$name($place $(, $argument)*).await,
        };
        drop(permit);
        $self.gate.answered($place.tenant().as_ref(), &answer);
        answer
    }};
}
use on_backend;

impl ObjectStore {
    /// Returns a bucket of an S3 service. Signs in lazily: only [`ObjectStore::check`] and the operations
    /// contact it.
    #[cfg(feature = "s3")]
    pub async fn s3(settings: &Settings) -> ObjectStore {
        ObjectStore::with_backend(Backend::S3(S3::new(settings).await), settings)
    }

    pub(crate) fn with_backend(backend: Backend, settings: &Settings) -> ObjectStore {
        ObjectStore { backend: Arc::new(backend), gate: Arc::new(RequestGate::new(settings.requests)) }
    }

    /// Returns the statistics for metrics.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.gate.stats()
    }

    /// Checks whether the bucket answers; used for readiness. It waits for no other request, so that requests
    /// without an answer do not hold the check back.
    ///
    /// # Errors
    /// Returns a refused or transient error.
    pub async fn check(&self) -> Result<(), StorageError> {
        let answer = match &*self.backend {
            #[cfg(feature = "s3")]
            Backend::S3(s3) => s3.check().await,
            #[cfg(feature = "testkit")]
            Backend::Memory(memory) => memory.check().await,
        };
        self.gate.answered(None, &answer);
        answer
    }

    /// Stores bytes that are already in memory.
    ///
    /// # Errors
    /// Returns [`StorageError::Precondition`] if the condition does not hold, or a refused or transient
    /// error.
    pub async fn put(&self, key: &ObjectKey, bytes: Bytes, put: &Put) -> Result<ETag, StorageError> {
        gate::charge_bytes(key, bytes.len() as u64);
        on_backend!(self, put(key, bytes, put))
    }

    /// Stores a stream of unknown length, at most `limit` bytes, in parts that are held one by one. Removes
    /// its parts if it fails or is dropped.
    ///
    /// # Errors
    /// Returns [`StorageError::Source`] if the stream fails, [`StorageError::TooLarge`] past the limit, or
    /// a precondition, refused or transient error.
    pub async fn put_stream(
        &self,
        key: &ObjectKey,
        source: impl AsyncRead + Send + Unpin,
        limit: u64,
        put: &Put,
    ) -> Result<StoredObject, StorageError> {
        upload::store_stream(self, key, source, limit, put).await
    }

    /// Stores a file, in parts if it is large.
    ///
    /// # Errors
    /// Returns [`StorageError::File`] if the file cannot be read, or a precondition, refused or transient
    /// error.
    pub async fn put_file(&self, key: &ObjectKey, path: &Path, put: &Put) -> Result<ETag, StorageError> {
        let size = tokio::fs::metadata(path).await.map_err(StorageError::File)?.len();
        if size >= MULTIPART_FROM {
            let file = tokio::fs::File::open(path).await.map_err(StorageError::File)?;
            return upload::store_stream(self, key, file, size, put).await.map(|stored| stored.etag);
        }
        gate::charge_bytes(key, size);
        on_backend!(self, put_file(key, path, put))
    }

    /// Begins a multipart upload and returns its id. The upload stays until it is completed or aborted by
    /// this id.
    ///
    /// # Errors
    /// Returns a refused or transient error.
    pub async fn begin_parts(&self, key: &ObjectKey) -> Result<String, StorageError> {
        on_backend!(self, begin_parts(key, &Put::default()))
    }

    /// Stores a part of a multipart upload and returns the part's tag. Replaces an earlier part with the
    /// same number (1 to [`MOST_PARTS`]).
    ///
    /// # Errors
    /// Returns [`StorageError::Unfinished`] if there is no such upload, or a refused or transient error.
    pub async fn put_part(
        &self,
        key: &ObjectKey,
        id: &str,
        number: usize,
        part: Bytes,
    ) -> Result<String, StorageError> {
        gate::charge_bytes(key, part.len() as u64);
        on_backend!(self, put_part(key, id, number, part))
    }

    /// Creates an object of `size` bytes from a multipart upload's parts. The caller gives the parts' tags
    /// in order, from the first. May be repeated: an object from an earlier call counts as success.
    ///
    /// # Errors
    /// Returns [`StorageError::Unfinished`] if neither exists, or a refused or transient error.
    pub async fn complete_parts(
        &self,
        key: &ObjectKey,
        id: &str,
        tags: &[String],
        size: u64,
    ) -> Result<(), StorageError> {
        let done = on_backend!(self, complete_parts(key, id, tags, &Put::default()));
        let Err(error) = done else { return Ok(()) };
        // The earlier answer may have been lost, and stores report a missing upload in many ways.
        match self.head(key).await {
            Ok(Some(head)) if head.size == size => Ok(()),
            _ => Err(error),
        }
    }

    /// Removes the parts of a multipart upload. Succeeds if the upload does not exist.
    ///
    /// # Errors
    /// Returns a refused or transient error.
    pub async fn abort_parts(&self, key: &ObjectKey, id: &str) -> Result<(), StorageError> {
        on_backend!(self, abort_parts(key, id))
    }

    /// Returns size, version and metadata; `None` if no object has the key.
    ///
    /// # Errors
    /// Returns a refused or transient error.
    pub async fn head(&self, key: &ObjectKey) -> Result<Option<Head>, StorageError> {
        on_backend!(self, head(key))
    }

    /// Returns the whole object in memory, at most `limit` bytes; `None` if no object has the key.
    ///
    /// # Errors
    /// Returns [`StorageError::TooLarge`] past the limit, or a refused or transient error.
    pub async fn get(&self, key: &ObjectKey, limit: u64) -> Result<Option<FetchedObject>, StorageError> {
        let Some(download) = self.open(key).await? else { return Ok(None) };
        download.into_object(limit).await.map(Some)
    }

    /// Returns a range of an object's bytes, cut at its end; `None` if no object has the key.
    ///
    /// # Errors
    /// Returns [`StorageError::Range`] if the range is empty or begins past the end, or a refused or
    /// transient error.
    pub async fn get_range(&self, key: &ObjectKey, range: Range<u64>) -> Result<Option<Bytes>, StorageError> {
        let outside = || StorageError::Range { key: key.to_string(), start: range.start, end: range.end };
        if range.is_empty() {
            return Err(outside());
        }
        let wanted = usize::try_from(range.end - range.start).map_err(|_| outside())?;
        let Some(mut download) = self.open_range(key, Some(range.clone())).await? else { return Ok(None) };
        let mut bytes = Vec::new();
        while let Some(chunk) = download.next().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > wanted {
                return Err(outside());
            }
        }
        Ok(Some(bytes.into()))
    }

    /// Writes the object to a new file at `path`, at most `limit` bytes. Returns `None` and creates no file
    /// if no object has the key. Removes an incomplete file on failure.
    ///
    /// # Errors
    /// Returns [`StorageError::TooLarge`] past the limit, [`StorageError::File`], or a refused or transient
    /// error.
    pub async fn get_to_file(
        &self,
        key: &ObjectKey,
        path: &Path,
        limit: u64,
    ) -> Result<Option<FetchedFile>, StorageError> {
        let Some(download) = self.open(key).await? else { return Ok(None) };
        let file = tokio::fs::File::create_new(path).await.map_err(StorageError::File)?;
        let written = download.write_to(file, limit).await;
        if written.is_err() {
            tokio::fs::remove_file(path).await.ok();
        }
        written.map(Some)
    }

    /// Starts to read an object. Its size and metadata are known; its bytes follow. Returns `None` if no
    /// object has the key.
    ///
    /// # Errors
    /// Returns a refused or transient error.
    pub async fn open(&self, key: &ObjectKey) -> Result<Option<Download>, StorageError> {
        self.open_range(key, None).await
    }

    /// Lists objects with keys that begin with `prefix`, after the key `after`, at most `max` (1,000).
    ///
    /// # Errors
    /// Returns a refused or transient error.
    pub async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&ObjectKey>,
        max: u16,
    ) -> Result<ListingPage, StorageError> {
        on_backend!(self, list(prefix, after, max.clamp(1, 1000)))
    }

    /// Removes an object. Succeeds if the object does not exist.
    ///
    /// # Errors
    /// Returns a refused or transient error.
    pub async fn delete(&self, key: &ObjectKey) -> Result<(), StorageError> {
        on_backend!(self, delete(key))
    }

    async fn open_range(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
    ) -> Result<Option<Download>, StorageError> {
        let permit = self.gate.permit().await;
        let answer: Result<Option<Opened>, StorageError> = match &*self.backend {
            #[cfg(feature = "s3")]
            Backend::S3(s3) => s3.open(key, range).await,
            #[cfg(feature = "testkit")]
            Backend::Memory(memory) => memory.open(key, range).await,
        };
        self.gate.answered(key.tenant().as_ref(), &answer);
        Ok(answer?.map(|(head, body)| Download::new(key.clone(), head, body, permit)))
    }
}

/// Bytes that are hashed or written before yielding to the runtime.
const YIELD_STEP_BYTES: usize = 64 << 10;

/// Reads one part of a stream with its SHA-256: `size` bytes, or fewer at the end.
///
/// # Errors
/// Returns [`StorageError::Source`] if the stream fails.
pub async fn hashed_part(
    mut source: impl AsyncRead + Unpin,
    size: usize,
) -> Result<(Bytes, ContentHash), StorageError> {
    let mut hash = Sha256::new();
    let part = read_part(&mut source, size, &mut hash).await?;
    Ok((part, ContentHash(hash.finalize().into())))
}

/// Fills a buffer with `size` bytes, or fewer at the end of the stream.
async fn read_part(
    source: &mut (impl AsyncRead + Unpin),
    size: usize,
    hash: &mut Sha256,
) -> Result<Bytes, StorageError> {
    let mut part = Vec::new();
    while part.len() < size {
        let begin = part.len();
        let step = YIELD_STEP_BYTES.min(size - begin);
        let read =
            (&mut *source).take(step as u64).read_buf(&mut part).await.map_err(StorageError::Source)?;
        if read == 0 {
            break;
        }
        hash.update(&part[begin..]);
    }
    Ok(part.into())
}
