//! One download, from the request to the answer that all waiting callers get.

use super::disk::OnDisk;
use super::download_space::Reserved;
use super::eviction::CacheEntry;
use super::{Answer, CacheError, Inner};
use crate::keys::{self, ObjectKey};
use crate::{AliasMeta, Download, FetchedFile, StorageError};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use unslide_archive::map_file;
use unslide_model::{DebugId, Owned};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::{SymCache, SymCacheError};

/// The most requests of one flight. It retries after an event during the request, or after it read an
/// alias that was being replaced.
const FLIGHT_REQUESTS_LIMIT: usize = 4;

/// Pause between two reads of an alias if its bytes and metadata came from different writes.
const TORN_PAUSE: Duration = Duration::from_millis(50);

/// Runs a flight to its end. Waiting callers always get an answer.
pub(super) async fn run_flight(inner: Arc<Inner>, id: Owned<DebugId>) {
    let mut landing = Landing { inner, id, landed: false };
    let answer = fetch_answer(&landing.inner, &landing.id).await;
    landing.finish_flight(answer);
}

struct Landing {
    inner: Arc<Inner>,
    id: Owned<DebugId>,
    landed: bool,
}

impl Landing {
    fn finish_flight(&mut self, answer: Answer) {
        self.landed = true;
        self.inner.state.lock().finish_flight(&self.id, answer);
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        // The task was cancelled, or panicked.
        if !self.landed {
            self.finish_flight(Err(given_up()));
        }
    }
}

pub(super) fn given_up() -> CacheError {
    CacheError::Transient("the download was given up".into())
}

async fn fetch_answer(inner: &Arc<Inner>, id: &Owned<DebugId>) -> Answer {
    if let Some(found) = from_disk(inner, id).await? {
        return Ok(found);
    }
    let Ok(_permit) = inner.downloads.acquire().await else { return Err(given_up()) };
    let mut tries = 0;
    loop {
        tries += 1;
        inner.state.lock().begin_request(id);
        // An answer that an event has overtaken is requested again. If events keep coming, it is returned
        // anyway, but not kept.
        match fetch_any_version(inner, id).await? {
            Outcome::Torn if tries < FLIGHT_REQUESTS_LIMIT => tokio::time::sleep(TORN_PAUSE).await,
            Outcome::Torn => {
                let text = "a symcache's bytes are not those that its metadata names";
                return Err(CacheError::Transient(text.into()));
            }
            Outcome::Negative(negative) => {
                if inner.remember_missing(id, negative.clone()) || tries >= FLIGHT_REQUESTS_LIMIT {
                    return Ok(negative);
                }
            }
            Outcome::Found(whole) => {
                let symbols = ImageSymbols::Found {
                    symcache: whole.symcache.clone(),
                    generation: Some(whole.meta.generation),
                    object: Some(whole.meta.object),
                };
                if store_download(inner, id, whole).await? || tries >= FLIGHT_REQUESTS_LIMIT {
                    return Ok(symbols);
                }
            }
        }
    }
}

/// Moves a download to its final name and evicts others for it. Returns false if an event has overtaken
/// it. One larger than the whole cache is used but not kept.
async fn store_download(inner: &Arc<Inner>, id: &Owned<DebugId>, whole: Whole) -> Result<bool, CacheError> {
    if whole.size > inner.settings.max_bytes {
        return Ok(true);
    }
    let (inner, id) = (inner.clone(), id.clone());
    run_blocking(move || {
        let (meta, size) = (&whole.meta, whole.size);
        let file = inner.disk.store_download(&whole.temporary.path, &id, whole.version, meta, size)?;
        let entry = CacheEntry::from_download(file, whole.symcache.clone());
        let (kept, gone) = inner.state.lock().insert_fetched(id, entry);
        for gone in gone {
            inner.disk.remove_file(&gone.file);
        }
        Ok(kept)
    })
    .await
}

/// Uses a file from the last run, or one that may be outdated because events were missed.
async fn from_disk(inner: &Arc<Inner>, id: &Owned<DebugId>) -> Result<Option<ImageSymbols>, CacheError> {
    let Some(unready) = inner.state.lock().find_unready(id) else { return Ok(None) };
    if unready.mapped.is_some() && unready.checked {
        // The entry is ready, so this request needs a newer one.
        return Ok(None);
    }
    if !unready.checked && !is_current(inner, id, &unready.file).await? {
        return Ok(None);
    }
    let (inner, id) = (inner.clone(), id.clone());
    run_blocking(move || {
        let Some(found) = unready.mapped.clone().or_else(|| reopen_file(id.id, &unready.file)) else {
            let corrupt = inner.state.lock().remove_corrupt(&id);
            if let Some(corrupt) = corrupt {
                inner.disk.remove_file(&corrupt.file);
            }
            return Ok(None);
        };
        let usable = inner.state.lock().record_verified(&id, &unready, found.clone());
        Ok(usable.then(|| unready.file.to_image_symbols(found)))
    })
    .await
}

/// Returns whether object storage still has the same version of a file.
async fn is_current(inner: &Inner, id: &Owned<DebugId>, file: &OnDisk) -> Result<bool, CacheError> {
    let key = keys::for_symbols(id).alias(file.version);
    let asked = timeout(inner.settings.limits.download_timeout(), inner.store.head(&key));
    let head = asked.await.map_err(|_| too_slow())?.map_err(store_error)?;
    let current = head.and_then(|head| AliasMeta::from_metadata(&head.metadata));
    Ok(current.is_some_and(|meta| meta.generation == file.generation && meta.sha256 == file.sha256))
}

/// Maps a file from the last run, if it is intact.
fn reopen_file(id: DebugId, file: &OnDisk) -> Option<Arc<SymCache>> {
    let symcache = SymCache::parse(map_file(&file.path).ok()?).ok()?;
    let whole = symcache.debug_id() == id && symcache.verify_checksum().is_ok();
    whole.then(|| Arc::new(symcache))
}

enum Outcome {
    Found(Whole),
    Negative(ImageSymbols),
    /// Bytes and metadata are from different writes, or the bytes arrived damaged.
    Torn,
}

/// A verified download.
struct Whole {
    temporary: Temporary,
    symcache: Arc<SymCache>,
    version: u32,
    meta: AliasMeta,
    size: u64,
}

/// A download's file, unlinked unless it is renamed.
pub(super) struct Temporary {
    pub(super) path: PathBuf,
    /// The reserved disk space, until the file counts as part of the cache.
    _reserved: Reserved,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}

/// Requests each version of the format that this cache reads, the newest first. While builders write two
/// versions, an object that is not rebuilt yet has only the older one.
async fn fetch_any_version(inner: &Arc<Inner>, id: &Owned<DebugId>) -> Result<Outcome, CacheError> {
    let mut negative = ImageSymbols::Missing;
    for version in &inner.settings.versions {
        match fetch_version(inner, id, *version).await? {
            Outcome::Negative(answer) => {
                if matches!(negative, ImageSymbols::Missing) {
                    negative = answer;
                }
            }
            other => return Ok(other),
        }
    }
    Ok(Outcome::Negative(negative))
}

async fn fetch_version(inner: &Arc<Inner>, id: &Owned<DebugId>, version: u32) -> Result<Outcome, CacheError> {
    let keys = keys::for_symbols(id);
    let Some((temporary, fetched)) = download_object(inner, id, &keys.alias(version)).await? else {
        return Ok(Outcome::Negative(ImageSymbols::Missing));
    };
    let Some(meta) = AliasMeta::from_metadata(&fetched.head.metadata) else {
        return Ok(Outcome::Negative(ImageSymbols::Malformed));
    };
    // A deletion after this check overtakes the request.
    if inner.state.lock().is_deleted(id, meta.generation) {
        return Ok(Outcome::Negative(ImageSymbols::Missing));
    }
    if fetched.sha256 == meta.sha256 {
        return open_download(id, temporary, version, meta, fetched.head.size).await;
    }
    drop(temporary);
    // This store does not write bytes and metadata atomically. The object that the metadata names is never
    // overwritten.
    match download_object(inner, id, &keys.symcache(version, &meta.sha256)).await? {
        Some((temporary, fetched)) if fetched.sha256 == meta.sha256 => {
            open_download(id, temporary, version, meta, fetched.head.size).await
        }
        _ => Ok(Outcome::Torn),
    }
}

/// Downloads an object. If the disk is full, evicts others and retries once.
pub(super) async fn download_object(
    inner: &Arc<Inner>,
    id: &Owned<DebugId>,
    key: &ObjectKey,
) -> Result<Option<(Temporary, FetchedFile)>, CacheError> {
    let limits = &inner.settings.limits;
    let (mut had, mut made_way): (Option<Reserved>, bool) = (None, false);
    loop {
        let opened =
            timeout(limits.download_timeout(), inner.store.open(key)).await.map_err(|_| too_slow())?;
        let Some(download) = opened.map_err(store_error)? else { return Ok(None) };
        let size = download.head.size;
        if size > limits.largest_bytes {
            let (key, limit) = (key.to_string(), limits.largest_bytes);
            return Err(store_error(StorageError::TooLarge { key, limit }));
        }
        let reserved = had.take().filter(|reserved| reserved.can_hold(size));
        let Some(reserved) = reserved.or_else(|| inner.space.reserve_now(&id.owner, size)) else {
            // The response is dropped while waiting, and requested again afterwards.
            drop(download);
            had = Some(inner.space.reserve_bytes(&id.owner, size, limits.download_timeout()).await?);
            continue;
        };
        let written = timeout(limits.download_timeout(), write_download(inner, download, reserved)).await;
        match written.map_err(|_| too_slow())? {
            Err(StorageError::File(error)) if is_full(&error) && !made_way => {
                made_way = true;
                make_way(inner, id, size).await?;
            }
            written => return written.map(Some).map_err(store_error),
        }
    }
}

async fn write_download(
    inner: &Inner,
    download: Download,
    reserved: Reserved,
) -> Result<(Temporary, FetchedFile), StorageError> {
    let (path, file) = inner.disk.create_temporary().map_err(StorageError::File)?;
    let temporary = Temporary { path, _reserved: reserved };
    let fetched = download.write_to(file.into(), inner.settings.limits.largest_bytes).await?;
    Ok((temporary, fetched))
}

/// Evicts symcaches of as many bytes as the disk lacks.
async fn make_way(inner: &Arc<Inner>, id: &Owned<DebugId>, bytes: u64) -> Result<(), CacheError> {
    let (inner, owner) = (inner.clone(), id.owner.clone());
    run_blocking(move || {
        let gone = inner.state.lock().make_way(&owner, bytes);
        tracing::warn!(bytes, evicted = gone.len(), "the symcache cache's disk is full");
        gone.iter().for_each(|gone| inner.disk.remove_file(&gone.file));
        Ok(())
    })
    .await
}

async fn open_download(
    id: &Owned<DebugId>,
    temporary: Temporary,
    version: u32,
    meta: AliasMeta,
    size: u64,
) -> Result<Outcome, CacheError> {
    let id = id.id;
    run_blocking(move || {
        Ok(match SymCache::parse(map_file(&temporary.path)?) {
            Ok(symcache) if symcache.debug_id() == id => {
                Outcome::Found(Whole { temporary, symcache: Arc::new(symcache), version, meta, size })
            }
            Err(SymCacheError::Version(_)) => Outcome::Negative(ImageSymbols::Unsupported),
            _ => Outcome::Negative(ImageSymbols::Malformed),
        })
    })
    .await
}

fn store_error(error: StorageError) -> CacheError {
    match error {
        StorageError::Transient { .. } | StorageError::ObjectAtFault { .. } => {
            CacheError::Transient(error.without_key())
        }
        StorageError::TooLarge { .. } => CacheError::NoRoom(error.without_key()),
        StorageError::File(error) => disk_error(&error),
        other => CacheError::Operator(other.without_key()),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn too_slow() -> CacheError {
    CacheError::Transient("object storage did not deliver a symcache in time".into())
}

fn disk_error(error: &io::Error) -> CacheError {
    if is_full(error) {
        return CacheError::Transient("the symcache cache's disk is full".into());
    }
    CacheError::Operator(format!("the symcache cache's disk failed: {error}"))
}

/// Runs blocking disk work outside the async worker threads.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, CacheError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| disk_error(&error)),
        Err(_) => Err(CacheError::Transient("a task was given up".into())),
    }
}
