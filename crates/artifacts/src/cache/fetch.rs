//! One download, from the question to the answer that everyone who waits gets.

use super::disk::OnDisk;
use super::state::Entry;
use super::{Answer, CacheError, Cached, Inner, Slot, Symcache};
use crate::keys::{self, Key, SymbolKeys};
use crate::mapped::map;
use crate::{AliasMeta, Fetched, StoreError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use unslide_model::Scoped;
use unslide_symbolicate::symcache::{SymCache, SymCacheError, VERSION};

/// Requests of one flight: one, and again after an event came in between or an alias was read while
/// it was being replaced.
const TRIES: usize = 4;

/// Between two reads of an alias whose bytes and metadata were not of one write.
const TORN_PAUSE: Duration = Duration::from_millis(50);

/// Runs a flight to its end; whatever happens, those who wait are told.
pub(super) async fn fly(inner: Arc<Inner>, slot: Slot) {
    let mut landing = Landing { inner, slot, landed: false };
    let answer = answer(&landing.inner, &landing.slot).await;
    landing.land(answer);
}

struct Landing {
    inner: Arc<Inner>,
    slot: Slot,
    landed: bool,
}

impl Landing {
    fn land(&mut self, answer: Answer) {
        self.landed = true;
        self.inner.state.lock().land(&self.slot, answer);
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        // The task was cancelled, or panicked.
        if !self.landed {
            self.land(Err(given_up()));
        }
    }
}

fn given_up() -> CacheError {
    CacheError::Transient("the download was given up".into())
}

async fn answer(inner: &Arc<Inner>, slot: &Slot) -> Answer {
    if let Some(found) = from_disk(inner, slot).await? {
        return Ok(Cached::Found(found));
    }
    let Ok(_turn) = inner.downloads.acquire().await else { return Err(given_up()) };
    let mut tries = 0;
    loop {
        tries += 1;
        inner.state.lock().begin_request(slot);
        // What an event has overtaken is asked for again; when events keep coming it is given all
        // the same, and not kept.
        match fetch(inner, slot).await? {
            Outcome::Torn if tries < TRIES => tokio::time::sleep(TORN_PAUSE).await,
            Outcome::Torn => {
                let text = "a symcache's bytes are not those that its metadata names";
                return Err(CacheError::Transient(text.into()));
            }
            Outcome::Negative(negative) => {
                if inner.remember(slot, negative.clone()) || tries >= TRIES {
                    return Ok(negative);
                }
            }
            Outcome::Found { temporary, symcache, meta, size } => {
                let found = Symcache {
                    symcache,
                    generation: meta.generation,
                    object: meta.object,
                    system: slot.tenant.is_none(),
                };
                if keep(inner, slot, &temporary, &meta, size, found.clone()).await? || tries >= TRIES {
                    return Ok(Cached::Found(found));
                }
            }
        }
    }
}

/// Gives a download its place, and room; false where an event has overtaken it. One that is larger
/// than the whole cache is used and not kept.
async fn keep(
    inner: &Arc<Inner>,
    slot: &Slot,
    temporary: &Temporary,
    meta: &AliasMeta,
    size: u64,
    found: Symcache,
) -> Result<bool, CacheError> {
    if size > inner.settings.max_bytes {
        return Ok(true);
    }
    let (inner, slot, meta, temporary) = (inner.clone(), slot.clone(), *meta, temporary.0.clone());
    blocking(move || {
        inner.make_room(size);
        let file = inner.disk.keep(&temporary, &slot, &meta, size)?;
        let (kept, gone) = inner.state.lock().insert_fetched(slot, Entry::fetched(file, found));
        if let Some(gone) = gone {
            inner.disk.remove(&gone);
        }
        Ok(kept)
    })
    .await
}

/// A file from the last run, or one that may have been overtaken while events were missed.
async fn from_disk(inner: &Arc<Inner>, slot: &Slot) -> Result<Option<Symcache>, CacheError> {
    let Some((file, mapped, checked)) = inner.state.lock().unmapped(slot) else { return Ok(None) };
    if mapped.is_some() && checked {
        // It is known, and still was asked for: a newer one is wanted.
        return Ok(None);
    }
    if !checked {
        let head = inner.store.head(&symbol_keys(slot).alias(VERSION)).await.map_err(store_error)?;
        let current = head.and_then(|head| AliasMeta::from_metadata(&head.metadata));
        if current.is_none_or(|meta| meta.generation != file.generation || meta.sha256 != file.sha256) {
            return Ok(None);
        }
    }
    if let Some(mapped) = mapped {
        inner.state.lock().verified(slot, &file, mapped.clone());
        return Ok(Some(mapped));
    }
    let (inner, slot) = (inner.clone(), slot.clone());
    blocking(move || {
        let Some(symcache) = reopen(&slot, &file) else {
            let corrupt = inner.state.lock().remove_corrupt(&slot);
            if let Some(corrupt) = corrupt {
                inner.disk.remove(&corrupt);
            }
            return Ok(None);
        };
        let found = Symcache {
            symcache: Arc::new(symcache),
            generation: file.generation,
            object: file.object,
            system: slot.tenant.is_none(),
        };
        inner.state.lock().verified(&slot, &file, found.clone());
        Ok(Some(found))
    })
    .await
}

/// A file from the last run, if it is whole.
fn reopen(slot: &Slot, file: &OnDisk) -> Option<SymCache<memmap2::Mmap>> {
    let symcache = SymCache::parse(map(&file.path).ok()?).ok()?;
    (symcache.debug_id() == slot.id && symcache.verify_checksum().is_ok()).then_some(symcache)
}

enum Outcome {
    Found {
        temporary: Temporary,
        symcache: Arc<SymCache<memmap2::Mmap>>,
        meta: AliasMeta,
        size: u64,
    },
    Negative(Cached),
    /// Bytes and metadata are of two writes.
    Torn,
}

/// A download's file, unlinked when it is not renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn symbol_keys(slot: &Slot) -> SymbolKeys {
    match &slot.tenant {
        Some(tenant) => keys::symbols(&Scoped { tenant: tenant.clone(), id: slot.id }),
        None => keys::system_symbols(slot.id),
    }
}

async fn fetch(inner: &Arc<Inner>, slot: &Slot) -> Result<Outcome, CacheError> {
    let keys = symbol_keys(slot);
    let Some((temporary, fetched)) = download(inner, &keys.alias(VERSION)).await? else {
        return Ok(Outcome::Negative(Cached::Missing));
    };
    let Some(meta) = AliasMeta::from_metadata(&fetched.head.metadata) else {
        return Ok(Outcome::Negative(Cached::Malformed));
    };
    if fetched.sha256 == meta.sha256 {
        return open(slot, temporary, meta, fetched.head.size).await;
    }
    // A store that does not write bytes and metadata in one step. The object that the metadata
    // names is never overwritten.
    match download(inner, &keys.symcache(VERSION, &meta.sha256)).await? {
        Some((temporary, fetched)) if fetched.sha256 == meta.sha256 => {
            open(slot, temporary, meta, fetched.head.size).await
        }
        _ => Ok(Outcome::Torn),
    }
}

async fn download(inner: &Inner, key: &Key) -> Result<Option<(Temporary, Fetched)>, CacheError> {
    let temporary = Temporary(inner.disk.temporary().map_err(|e| disk_error(&e))?);
    let fetched =
        inner.store.get_to_file(key, &temporary.0, inner.settings.largest).await.map_err(store_error)?;
    Ok(fetched.map(|fetched| (temporary, fetched)))
}

async fn open(slot: &Slot, temporary: Temporary, meta: AliasMeta, size: u64) -> Result<Outcome, CacheError> {
    let id = slot.id;
    blocking(move || {
        let parsed = parse(&temporary.0)?;
        Ok(match parsed {
            Ok(symcache) if symcache.debug_id() == id => {
                Outcome::Found { temporary, symcache: Arc::new(symcache), meta, size }
            }
            Err(SymCacheError::Version(_)) => Outcome::Negative(Cached::Unsupported),
            _ => Outcome::Negative(Cached::Malformed),
        })
    })
    .await
}

fn parse(path: &Path) -> io::Result<Result<SymCache<memmap2::Mmap>, SymCacheError>> {
    // A file of no bytes cannot be mapped.
    if std::fs::metadata(path)?.len() == 0 {
        return Ok(Err(SymCacheError::NotASymCache));
    }
    Ok(SymCache::parse(map(path)?))
}

fn store_error(error: StoreError) -> CacheError {
    match error {
        StoreError::Transient { .. } => CacheError::Transient(error.to_string()),
        other => CacheError::Operator(other.to_string()),
    }
}

fn disk_error(error: &io::Error) -> CacheError {
    CacheError::Operator(format!("the symcache cache's disk failed: {error}"))
}

/// Runs what waits for the disk where it holds nobody up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, CacheError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| disk_error(&error)),
        Err(_) => Err(CacheError::Transient("a task was given up".into())),
    }
}
