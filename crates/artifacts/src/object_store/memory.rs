//! Object storage in memory. A test switches its failures on and off. Built with the feature `testkit` only.

use super::download::{DownloadBody, HeldBytes, Opened};
use super::{Backend, Condition, ETag, Head, ListingEntry, ListingPage, ObjectStore, Put};
use crate::keys::{ObjectKey, Prefix};
use crate::{Settings, StorageError};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use time::OffsetDateTime;
use tokio::sync::watch;

/// A kind of operation on objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A put of any kind, including a part.
    Put,
    /// A get of any kind.
    Get,
    /// A head.
    Head,
    /// A listing, including a readiness check.
    List,
    /// A delete.
    Delete,
}

/// The way in which an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Temporarily: [`StorageError::Transient`].
    Transient,
    /// Until an operator acts: [`StorageError::Refused`].
    Refused,
    /// A get's bytes end early.
    Truncated,
    /// One byte of a get is wrong, a different one for each get.
    Corrupted,
}

struct Switch {
    operation: Operation,
    /// Substring of the key; empty for all keys.
    key: String,
    fault: Fault,
    left: Option<usize>,
}

struct Gate {
    operation: Operation,
    key: String,
    /// True if it holds back the bytes of a get, not its answer.
    bytes: bool,
    open: watch::Receiver<bool>,
}

struct StoredObject {
    bytes: Bytes,
    metadata: BTreeMap<String, String>,
    etag: ETag,
    modified: Option<OffsetDateTime>,
}

struct Pending {
    metadata: BTreeMap<String, String>,
    /// The parts with their tags, by number.
    parts: BTreeMap<usize, (String, Bytes)>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, StoredObject>,
    pending: HashMap<String, Pending>,
    writes: u64,
    now: Option<OffsetDateTime>,
    switches: Vec<Switch>,
    gates: Vec<Gate>,
    /// The fault to apply to the bytes of the current get.
    spoil: Option<Fault>,
    calls: HashMap<Operation, usize>,
}

/// The bucket in memory and its failure switches. Clones share the same bucket.
#[derive(Clone, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
}

/// Holds operations at their very end, with their outcome decided, until this is dropped.
pub struct Hold {
    open: watch::Sender<bool>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.open.send(true).ok();
    }
}

impl ObjectStore {
    /// Returns a bucket in memory for tests, and the switches for its failures.
    #[must_use]
    pub fn memory() -> (ObjectStore, Memory) {
        ObjectStore::memory_with(&Settings::default())
    }

    /// Does the same with the settings' limit on concurrent requests.
    #[must_use]
    pub fn memory_with(settings: &Settings) -> (ObjectStore, Memory) {
        let memory = Memory::default();
        (ObjectStore::with_backend(Backend::Memory(memory.clone()), settings), memory)
    }
}

impl Memory {
    /// Makes operations fail on keys that contain `key` (all keys if it is empty): the next `times`, or all
    /// if `times` is none.
    pub fn fail(&self, operation: Operation, key: &str, fault: Fault, times: Option<usize>) {
        let switch = Switch { operation, key: key.into(), fault, left: times };
        self.state.lock().switches.push(switch);
    }

    /// Sets the time of later writes. Without it, the store gives no time.
    pub fn set_time(&self, now: OffsetDateTime) {
        self.state.lock().now = Some(now);
    }

    /// Ends every failure.
    pub fn heal(&self) {
        self.state.lock().switches.clear();
    }

    /// Makes operations on keys that contain `key` wait after they read the bucket and before they answer. A
    /// test can act in between.
    #[must_use]
    pub fn hold(&self, operation: Operation, key: &str) -> Hold {
        self.gate(operation, key, false)
    }

    /// Makes gets of keys that contain `key` answer without their bytes, which arrive when the hold is
    /// dropped.
    #[must_use]
    pub fn hold_bytes(&self, key: &str) -> Hold {
        self.gate(Operation::Get, key, true)
    }

    fn gate(&self, operation: Operation, key: &str, bytes: bool) -> Hold {
        let (open, receiver) = watch::channel(false);
        self.state.lock().gates.push(Gate { operation, key: key.into(), bytes, open: receiver });
        Hold { open }
    }

    /// Returns how often the operation was called, including failures.
    #[must_use]
    pub fn call_count(&self, operation: Operation) -> usize {
        self.state.lock().calls.get(&operation).copied().unwrap_or_default()
    }

    /// Returns the number of multipart uploads that were neither completed nor aborted.
    #[must_use]
    pub fn unfinished_upload_count(&self) -> usize {
        self.state.lock().pending.len()
    }

    async fn perform_operation<T>(
        &self,
        operation: Operation,
        name: &'static str,
        key: &str,
        work: impl FnOnce(&mut State) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let (outcome, gate) = {
            let mut state = self.state.lock();
            *state.calls.entry(operation).or_default() += 1;
            let outcome = match state.take_fault(operation, key) {
                Some(Fault::Transient) => Err(StorageError::Transient {
                    operation: name,
                    key: key.into(),
                    detail: "switched to fail".into(),
                }),
                Some(Fault::Refused) => Err(StorageError::Refused {
                    operation: name,
                    key: key.into(),
                    detail: "switched to fail".into(),
                }),
                spoil => {
                    state.spoil = spoil;
                    work(&mut state)
                }
            };
            (outcome, state.find_gate(operation, key, false))
        };
        if let Some(mut open) = gate {
            open.wait_for(|open| *open).await.ok();
        }
        outcome
    }

    pub(crate) async fn check(&self) -> Result<(), StorageError> {
        self.perform_operation(Operation::List, "list", "", |_| Ok(())).await
    }

    pub(crate) async fn put(&self, key: &ObjectKey, bytes: Bytes, put: &Put) -> Result<ETag, StorageError> {
        self.perform_operation(Operation::Put, "put", key.as_str(), |state| {
            state.put_object(key, bytes, put.metadata.clone(), put)
        })
        .await
    }

    pub(crate) async fn put_file(
        &self,
        key: &ObjectKey,
        path: &Path,
        put: &Put,
    ) -> Result<ETag, StorageError> {
        let bytes = tokio::fs::read(path).await.map_err(StorageError::File)?;
        self.put(key, bytes.into(), put).await
    }

    pub(crate) async fn begin_parts(&self, key: &ObjectKey, put: &Put) -> Result<String, StorageError> {
        self.perform_operation(Operation::Put, "put", key.as_str(), |state| {
            state.writes += 1;
            let id = format!("upload-{}", state.writes);
            let pending = Pending { metadata: put.metadata.clone(), parts: BTreeMap::new() };
            state.pending.insert(id.clone(), pending);
            Ok(id)
        })
        .await
    }

    pub(crate) async fn put_part(
        &self,
        key: &ObjectKey,
        id: &str,
        number: usize,
        part: Bytes,
    ) -> Result<String, StorageError> {
        self.perform_operation(Operation::Put, "put", key.as_str(), |state| {
            let pending = state.pending.get_mut(id).ok_or_else(|| no_upload(key))?;
            state.writes += 1;
            let tag = state.writes.to_string();
            pending.parts.insert(number, (tag.clone(), part));
            Ok(tag)
        })
        .await
    }

    pub(crate) async fn complete_parts(
        &self,
        key: &ObjectKey,
        id: &str,
        tags: &[String],
        put: &Put,
    ) -> Result<ETag, StorageError> {
        self.perform_operation(Operation::Put, "put", key.as_str(), |state| {
            let pending = state.pending.get(id).ok_or_else(|| no_upload(key))?;
            let parts: Option<Vec<&Bytes>> = tags
                .iter()
                .zip(1..)
                .map(|(tag, number)| pending.parts.get(&number).filter(|(own, _)| own == tag))
                .map(|part| part.map(|(_, bytes)| bytes))
                .collect();
            let parts = parts.ok_or_else(|| no_upload(key))?;
            let bytes: Vec<u8> = parts.into_iter().flatten().copied().collect();
            let metadata = pending.metadata.clone();
            let etag = state.put_object(key, bytes.into(), metadata, put)?;
            state.pending.remove(id);
            Ok(etag)
        })
        .await
    }

    pub(crate) async fn abort_parts(&self, key: &ObjectKey, id: &str) -> Result<(), StorageError> {
        self.perform_operation(Operation::Delete, "abort", key.as_str(), |state| {
            state.pending.remove(id);
            Ok(())
        })
        .await
    }

    pub(crate) async fn head(&self, key: &ObjectKey) -> Result<Option<Head>, StorageError> {
        self.perform_operation(Operation::Head, "head", key.as_str(), |state| {
            Ok(state.objects.get(key.as_str()).map(StoredObject::head))
        })
        .await
    }

    pub(crate) async fn open(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
    ) -> Result<Option<Opened>, StorageError> {
        self.perform_operation(Operation::Get, "get", key.as_str(), |state| {
            let spoil = state.spoil.take();
            let Some(object) = state.objects.get(key.as_str()) else { return Ok(None) };
            let bytes = match range {
                None => object.bytes.clone(),
                Some(range) => {
                    let outside =
                        || StorageError::Range { key: key.to_string(), start: range.start, end: range.end };
                    let size = object.bytes.len();
                    let start =
                        usize::try_from(range.start).ok().filter(|s| *s < size).ok_or_else(outside)?;
                    let end = usize::try_from(range.end).unwrap_or(size).min(size);
                    object.bytes.slice(start..end)
                }
            };
            let bytes = match spoil {
                Some(Fault::Truncated) => bytes.slice(..bytes.len() / 2),
                Some(Fault::Corrupted) => {
                    let mut bytes = bytes.to_vec();
                    let gets = state.calls.get(&Operation::Get).copied().unwrap_or_default();
                    let change = u8::try_from(gets % 255).unwrap_or_default() + 1;
                    bytes.iter_mut().rev().take(1).for_each(|byte| *byte ^= change);
                    bytes.into()
                }
                _ => bytes,
            };
            let head = object.head();
            let open = state.find_gate(Operation::Get, key.as_str(), true);
            Ok(Some((head, DownloadBody::Memory(HeldBytes { bytes: Some(bytes), open }))))
        })
        .await
    }

    pub(crate) async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&ObjectKey>,
        max: u16,
    ) -> Result<ListingPage, StorageError> {
        self.perform_operation(Operation::List, "list", prefix.as_str(), |state| {
            let mut found = state
                .objects
                .range(prefix.as_str().to_owned()..)
                .take_while(|(key, _)| key.starts_with(prefix.as_str()))
                .filter(|(key, _)| after.is_none_or(|after| key.as_str() > after.as_str()))
                .map(|(key, object)| ListingEntry {
                    key: ObjectKey::from_listing(key.clone()),
                    size: object.bytes.len() as u64,
                    modified: object.modified,
                });
            let entries: Vec<_> = found.by_ref().take(usize::from(max)).collect();
            let more = found.next().is_some();
            let next = entries.last().filter(|_| more).map(|entry| entry.key.clone());
            Ok(ListingPage { entries, next })
        })
        .await
    }

    pub(crate) async fn delete(&self, key: &ObjectKey) -> Result<(), StorageError> {
        self.perform_operation(Operation::Delete, "delete", key.as_str(), |state| {
            state.objects.remove(key.as_str());
            Ok(())
        })
        .await
    }
}

fn no_upload(key: &ObjectKey) -> StorageError {
    StorageError::Unfinished { key: key.to_string() }
}

impl StoredObject {
    fn head(&self) -> Head {
        Head {
            size: self.bytes.len() as u64,
            etag: self.etag.clone(),
            modified: self.modified,
            metadata: self.metadata.clone(),
        }
    }
}

impl State {
    /// Returns the gate that an operation has to wait for.
    fn find_gate(&mut self, operation: Operation, key: &str, bytes: bool) -> Option<watch::Receiver<bool>> {
        self.gates.retain(|gate| !*gate.open.borrow());
        let holds = |g: &&Gate| g.operation == operation && g.bytes == bytes && key.contains(&g.key);
        self.gates.iter().find(holds).map(|gate| gate.open.clone())
    }

    fn take_fault(&mut self, operation: Operation, key: &str) -> Option<Fault> {
        let matches = |s: &Switch| s.operation == operation && key.contains(&s.key) && s.left != Some(0);
        let switch = self.switches.iter_mut().find(|s| matches(s))?;
        switch.left = switch.left.map(|left| left - 1);
        Some(switch.fault)
    }

    fn put_object(
        &mut self,
        key: &ObjectKey,
        bytes: Bytes,
        metadata: BTreeMap<String, String>,
        put: &Put,
    ) -> Result<ETag, StorageError> {
        let there = self.objects.get(key.as_str()).map(|object| &object.etag);
        let holds = match &put.condition {
            Condition::Always => true,
            Condition::Absent => there.is_none(),
            Condition::Unchanged(etag) => there == Some(etag),
        };
        if !holds {
            return Err(StorageError::Precondition { key: key.to_string() });
        }
        self.writes += 1;
        let etag = ETag(format!("\"{}\"", self.writes));
        let object = StoredObject { bytes, metadata, etag: etag.clone(), modified: self.now };
        self.objects.insert(key.to_string(), object);
        Ok(etag)
    }
}
