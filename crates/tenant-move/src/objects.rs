//! Copies the tenant's objects from one bucket to the other.
//!
//! A pass compares both listings, which are in the order of their keys, and copies objects that the new bucket lacks, or that were
//! written since. It deletes those that the old bucket no longer has. Most passes run in several ranges of keys at once.

use crate::{Move, TenantMoveError};
use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream};
use unslide_artifacts::keys::{self, ObjectKey, Prefix};
use unslide_artifacts::{Condition, Head, ListingEntry, ObjectStore, Put, StorageError};

/// Objects of one page of a listing.
const PAGE_ENTRIES: u16 = 1_000;
/// Objects that are copied at once.
const COPIES: usize = 16;
/// Ranges of keys that a pass lists at once.
const RANGES: usize = 8;
/// Objects up to this size are read whole; of larger ones this many bytes at once.
const READ_BYTES: u64 = 8 << 20;
/// Time that copying the last objects may take while rows are frozen.
pub(crate) const OBJECTS_TIME_LIMIT: Duration = Duration::from_secs(4);
/// How often an object is copied again because it was replaced during its copy.
const COPY_TRIES: u32 = 5;

/// Counts of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyPass {
    /// Objects in the old bucket.
    pub listed: u64,
    pub listed_bytes: u64,
    pub copied: u64,
    /// Bytes that were copied.
    pub bytes: u64,
    pub deleted: u64,
}

impl CopyPass {
    fn add(&mut self, other: CopyPass) {
        self.listed += other.listed;
        self.listed_bytes += other.listed_bytes;
        self.copied += other.copied;
        self.bytes += other.bytes;
        self.deleted += other.deleted;
    }
}

/// The objects of a tenant.
pub(crate) struct Objects {
    prefix: Prefix,
    /// Keys between which a pass lists at once, as the last pass found them.
    bounds: Vec<ObjectKey>,
}

impl Objects {
    pub(crate) fn new(job: &Move<'_>) -> Objects {
        Objects { prefix: keys::tenant_prefix(&job.tenant), bounds: Vec::new() }
    }

    /// Copies the objects that are new or changed in the old bucket.
    pub(crate) async fn copy_changed(&mut self, job: &Move<'_>) -> Result<CopyPass, TenantMoveError> {
        let mut starts = vec![None];
        starts.extend(self.bounds.iter().cloned().map(Some));
        let ends = self.bounds.iter().cloned().map(Some).chain([None]);
        let copies = (COPIES / starts.len()).max(1);
        let ranges = starts.iter().cloned().zip(ends).map(|(after, last)| {
            let range = Range { job, prefix: &self.prefix, last, copies };
            Box::pin(range.copy(after))
        });
        let (mut pass, mut pages) = (CopyPass::default(), Vec::new());
        for (one, ends_of_pages) in try_join_all(ranges).await? {
            pass.add(one);
            pages.extend(ends_of_pages);
        }
        let step = pages.len().div_ceil(RANGES).max(1);
        self.bounds = pages.into_iter().skip(step - 1).step_by(step).take(RANGES - 1).collect();
        Ok(pass)
    }
}

/// Counts the objects of a bucket and their bytes.
pub(crate) async fn count_objects(store: &ObjectStore, prefix: &Prefix) -> Result<CopyPass, TenantMoveError> {
    let (mut pass, mut after) = (CopyPass::default(), None);
    loop {
        let page = store.list(prefix, after.as_ref(), PAGE_ENTRIES).await?;
        pass.listed += page.entries.len() as u64;
        pass.listed_bytes += page.entries.iter().map(|entry| entry.size).sum::<u64>();
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(pass),
        }
    }
}

/// Deletes all objects with a prefix. Returns their number.
pub(crate) async fn delete_objects(store: &ObjectStore, prefix: &Prefix) -> Result<u64, TenantMoveError> {
    let (mut deleted, mut after) = (0, None);
    loop {
        let page = store.list(prefix, after.as_ref(), PAGE_ENTRIES).await?;
        deleted += page.entries.len() as u64;
        let deletions = stream::iter(page.entries).map(async |entry| store.delete(&entry.key).await);
        deletions.buffer_unordered(COPIES).try_collect::<Vec<()>>().await?;
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(deleted),
        }
    }
}

/// A part of the keys: those after one key up to another.
struct Range<'r> {
    job: &'r Move<'r>,
    prefix: &'r Prefix,
    last: Option<ObjectKey>,
    copies: usize,
}

impl Range<'_> {
    /// Copies the range. Returns the last key of each page of the old bucket, too.
    async fn copy(self, after: Option<ObjectKey>) -> Result<(CopyPass, Vec<ObjectKey>), TenantMoveError> {
        let (mut pass, mut pages) = (CopyPass::default(), Vec::new());
        let mut there = Listing::new(&self.job.to.objects, self.prefix, after.clone(), self.last.clone());
        let mut next = after;
        loop {
            let page = self.job.from.objects.list(self.prefix, next.as_ref(), PAGE_ENTRIES).await?;
            let mut entries = page.entries;
            let is_over = |key: &ObjectKey| self.last.as_ref().is_some_and(|last| key > last);
            let is_end = page.next.as_ref().is_none_or(&is_over);
            entries.retain(|entry| !is_over(&entry.key));
            let (mut changed, mut gone) = (Vec::new(), Vec::new());
            for entry in entries {
                pass.listed += 1;
                pass.listed_bytes += entry.size;
                gone.extend(there.take_before(&entry.key).await?);
                let copy = there.take_same(&entry.key).await?;
                if copy.is_none_or(|copy| self.is_changed(&entry, &copy)) {
                    changed.push(entry);
                }
            }
            if is_end {
                gone.extend(there.take_rest().await?);
            }
            self.change_objects(changed, gone, &mut pass).await?;
            match page.next {
                Some(last) if !is_end => {
                    pages.push(last.clone());
                    next = Some(last);
                }
                _ => return Ok((pass, pages)),
            }
        }
    }

    fn is_changed(&self, entry: &ListingEntry, copy: &ListingEntry) -> bool {
        let is_newer = match (entry.modified, copy.modified) {
            (Some(written), Some(copied)) => written + self.job.limits.clock_margin >= copied,
            _ => true,
        };
        entry.size != copy.size || is_newer
    }

    async fn change_objects(
        &self,
        changed: Vec<ListingEntry>,
        gone: Vec<ObjectKey>,
        pass: &mut CopyPass,
    ) -> Result<(), TenantMoveError> {
        let (from, to) = (&self.job.from.objects, &self.job.to.objects);
        let copies =
            stream::iter(changed).map(async |entry| Box::pin(copy_object(from, to, &entry.key)).await);
        let sizes: Vec<Option<u64>> = copies.buffer_unordered(self.copies).try_collect().await?;
        for size in sizes.into_iter().flatten() {
            pass.copied += 1;
            pass.bytes += size;
        }
        pass.deleted += gone.len() as u64;
        let deletions = stream::iter(gone).map(async |key| to.delete(&key).await);
        deletions.buffer_unordered(self.copies).try_collect::<Vec<()>>().await?;
        Ok(())
    }
}

/// The objects of the new bucket in the order of their keys, beside those of the old one.
struct Listing<'l> {
    store: &'l ObjectStore,
    prefix: &'l Prefix,
    last: Option<ObjectKey>,
    /// The key after which the next page begins; `None` before the first page.
    after: Option<ObjectKey>,
    is_read: bool,
    entries: VecDeque<ListingEntry>,
}

impl<'l> Listing<'l> {
    fn new(
        store: &'l ObjectStore,
        prefix: &'l Prefix,
        after: Option<ObjectKey>,
        last: Option<ObjectKey>,
    ) -> Listing<'l> {
        Listing { store, prefix, last, after, is_read: false, entries: VecDeque::new() }
    }

    async fn peek(&mut self) -> Result<Option<&ListingEntry>, TenantMoveError> {
        while self.entries.is_empty() && !self.is_read {
            let page = self.store.list(self.prefix, self.after.as_ref(), PAGE_ENTRIES).await?;
            let is_over = |key: &ObjectKey| self.last.as_ref().is_some_and(|last| key > last);
            self.is_read = page.next.as_ref().is_none_or(&is_over);
            self.entries.extend(page.entries.into_iter().filter(|entry| !is_over(&entry.key)));
            self.after = page.next;
        }
        Ok(self.entries.front())
    }

    /// Takes the keys before a key.
    async fn take_before(&mut self, key: &ObjectKey) -> Result<Vec<ObjectKey>, TenantMoveError> {
        let mut taken = Vec::new();
        while self.peek().await?.is_some_and(|entry| entry.key < *key) {
            taken.extend(self.entries.pop_front().map(|entry| entry.key));
        }
        Ok(taken)
    }

    async fn take_same(&mut self, key: &ObjectKey) -> Result<Option<ListingEntry>, TenantMoveError> {
        let is_same = self.peek().await?.is_some_and(|entry| entry.key == *key);
        Ok(if is_same { self.entries.pop_front() } else { None })
    }

    async fn take_rest(&mut self) -> Result<Vec<ObjectKey>, TenantMoveError> {
        let mut taken = Vec::new();
        while self.peek().await?.is_some() {
            taken.extend(self.entries.pop_front().map(|entry| entry.key));
        }
        Ok(taken)
    }
}

/// Copies one object with its metadata. Returns its size, or `None` if it is gone.
async fn copy_object(
    from: &ObjectStore,
    to: &ObjectStore,
    key: &ObjectKey,
) -> Result<Option<u64>, StorageError> {
    let mut tries = 0;
    loop {
        let Some(head) = from.head(key).await? else {
            to.delete(key).await?;
            return Ok(None);
        };
        tries += 1;
        let copied = match head.size <= READ_BYTES {
            true => copy_small(from, to, key).await,
            false => Box::pin(copy_large(from, to, key, &head)).await,
        };
        match copied {
            Ok(true) => return Ok(Some(head.size)),
            Ok(false) if tries >= COPY_TRIES => {
                let detail = "it was replaced again and again during its copy".to_owned();
                return Err(StorageError::Transient { operation: "get", key: key.to_string(), detail });
            }
            Ok(false) => {}
            Err(error) if error.is_transient() && tries < COPY_TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

fn put_with(metadata: &BTreeMap<String, String>) -> Put {
    Put { condition: Condition::Always, metadata: metadata.clone() }
}

/// Returns false if the object was replaced by a large one, or is gone.
async fn copy_small(from: &ObjectStore, to: &ObjectStore, key: &ObjectKey) -> Result<bool, StorageError> {
    match from.get(key, READ_BYTES).await {
        Ok(Some(object)) => {
            to.put(key, object.bytes, &put_with(&object.head.metadata)).await?;
            Ok(true)
        }
        Ok(None) | Err(StorageError::TooLarge { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns false if the object was replaced or deleted during its copy.
async fn copy_large(
    from: &ObjectStore,
    to: &ObjectStore,
    key: &ObjectKey,
    head: &Head,
) -> Result<bool, StorageError> {
    let (writer, reader) = tokio::io::duplex(1 << 20);
    let put = put_with(&head.metadata);
    let (fed, stored) =
        tokio::join!(feed_object(from, key, head.size, writer), to.put_stream(key, reader, head.size, &put));
    let is_whole = fed?;
    let stored = stored?;
    let same = from.head(key).await?.is_some_and(|now| now.etag == head.etag);
    Ok(is_whole && same && stored.size == head.size)
}

/// Writes the bytes of an object. Returns false if it ends early.
async fn feed_object(
    from: &ObjectStore,
    key: &ObjectKey,
    size: u64,
    mut writer: DuplexStream,
) -> Result<bool, StorageError> {
    let mut start = 0;
    while start < size {
        let end = (start + READ_BYTES).min(size);
        let bytes = match from.get_range(key, start..end).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) | Err(StorageError::Range { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        match writer.write_all(&bytes).await {
            Ok(()) => start += bytes.len() as u64,
            // The store has given up, and says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
            Err(error) => return Err(StorageError::Source(error)),
        }
        if bytes.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}
