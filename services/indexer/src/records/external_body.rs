//! Bodies that the symbolizer stored as objects because they were too large for the topic: fetched and
//! checked, so that what follows sees the record as it would have been.

use crate::failure::IndexerError;
use crate::failure::{Failure, TRIES};
use crate::records::enriched::Unreadable;
use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_artifacts::segment::MAX_BODY_BYTES;
use unslide_artifacts::{ObjectStore, StorageError, Wrong, read_again};
use unslide_model::{ContentHash, TenantId};
use unslide_proto::headers;
use unslide_runtime::{Host, causes};
use unslide_stream::{Record, TopicPartition, split_by_size};

/// Other bodies that are tried before one alone counts as at fault.
const OTHERS: u16 = 8;
/// How long a body has to fail before it counts as at fault. What damages answers on their way hits
/// large bodies each time and small ones hardly ever, so that others say nothing while it lasts.
const AT_FAULT_AFTER: Duration = Duration::from_secs(60);
/// The most failing bodies with a known beginning of their failure.
const MOST_FAILING: usize = 1_000;
/// Bodies of held records that are tried for each batch. More could not go into quarantine within the same minute.
const MOST_AHEAD: usize = 20;

/// The bodies that can't be read now: since when, and when they last failed. Cheap to clone.
#[derive(Clone, Default)]
pub struct FailingBodies(Arc<Mutex<BTreeMap<ObjectKey, (Duration, Duration)>>>);

impl FailingBodies {
    /// A body failed: true where it has for long enough. `now` is of the monotonic clock.
    fn failed(&self, key: &ObjectKey, now: Duration) -> bool {
        let mut failing = self.0.lock();
        if failing.len() >= MOST_FAILING {
            failing.clear();
        }
        let (since, last) = failing.entry(key.clone()).or_insert((now, now));
        // Somebody else may have read it meanwhile.
        if now.saturating_sub(*last) > AT_FAULT_AFTER {
            *since = now;
        }
        *last = now;
        now.saturating_sub(*since) >= AT_FAULT_AFTER
    }

    fn is_read(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}

/// Partitions that are not read on, because a body in them can't be read and may still be readable soon.
#[derive(Default)]
pub struct HeldPartitions {
    partitions: BTreeSet<TopicPartition>,
    /// Their records behind that body's.
    records: Vec<Record>,
    /// Why the first one is held.
    error: Option<StorageError>,
}

impl HeldPartitions {
    /// Keeps a record where its partition is held.
    fn take(&mut self, record: Record) -> Option<Record> {
        let place = (Arc::clone(&record.at.topic), record.at.partition);
        if self.partitions.contains(&place) {
            self.records.push(record);
            return None;
        }
        Some(record)
    }

    fn hold(&mut self, record: &Record, error: StorageError) {
        self.partitions.insert((Arc::clone(&record.at.topic), record.at.partition));
        self.error.get_or_insert(error);
    }

    /// Ends a batch. Where partitions are held, their next bodies are tried first: how long each one has failed
    /// counts from now on, so that several in a row cost no more time than one.
    ///
    /// # Errors
    /// Where partitions are held: their records are to be read again.
    pub async fn finish(
        self,
        objects: &ObjectStore,
        host: &Host,
        failing: &FailingBodies,
        pause: Duration,
    ) -> Result<(), IndexerError> {
        let Some(error) = self.error else { return Ok(()) };
        let bodies = self.records.iter().filter(|record| is_external(record));
        for place in bodies.filter_map(|record| place(record).ok()).take(MOST_AHEAD) {
            if host.shutdown.is_begun() {
                break;
            }
            match body(objects, host, &place, pause).await {
                Ok(_) => failing.is_read(&place.key),
                Err(IndexerError::Objects(StorageError::ObjectAtFault { .. })) => {
                    failing.failed(&place.key, host.clock.monotonic());
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Err(error.into())
    }
}

/// A record with its body, or with why it has none.
#[derive(Clone, Debug)]
pub struct FetchedBody {
    /// The record; its value is the body, wherever that was.
    pub record: Record,
    /// The object that the body was in.
    pub key: Option<ObjectKey>,
    /// Why the body cannot be had.
    pub failed: Option<Unreadable>,
    /// Why the body can't be read, where its object is at fault and others are read.
    pub fault: Option<Failure>,
    /// The tenant that the record is deferred for: nothing more of it is read now.
    pub deferred_for: Option<TenantId>,
}

impl FetchedBody {
    /// A record that is its own body.
    pub fn inline(record: Record) -> FetchedBody {
        FetchedBody { record, key: None, failed: None, fault: None, deferred_for: None }
    }
}

/// What a record says of its body.
struct Place {
    tenant: TenantId,
    key: ObjectKey,
    bytes: usize,
    sha256: ContentHash,
}

fn is_external(record: &Record) -> bool {
    record.headers.get(headers::BODY_KEY).is_some()
}

fn place(record: &Record) -> Result<Place, Unreadable> {
    let wrong = |reason, detail: String| Unreadable { reason, detail };
    let text = |name| {
        let text = record.headers.text(name);
        text.ok_or_else(|| wrong("no_body", format!("the header {name} is not there or is no text")))
    };
    let tenant = TenantId::new(text(headers::TENANT)?).map_err(|e| wrong("no_tenant", e.to_string()))?;
    let named = text(headers::BODY_KEY)?;
    let key =
        ObjectKey::of_tenant(&tenant, named).map_err(|e| wrong("foreign_body", format!("{named}: {e}")))?;
    if !key.as_str().starts_with(&format!("t/{tenant}/outputs/")) {
        return Err(wrong("foreign_body", format!("{key} holds no output")));
    }
    let bytes = text(headers::BODY_BYTES)?;
    let bytes: usize = bytes.parse().map_err(|_| wrong("no_body", format!("{bytes} is no size")))?;
    if bytes > MAX_BODY_BYTES {
        return Err(wrong("too_large", format!("the body has {bytes} bytes")));
    }
    let sha256 = text(headers::BODY_SHA256)?;
    let sha256 = sha256.parse().map_err(|e| wrong("no_body", format!("{sha256} is no SHA-256: {e}")))?;
    Ok(Place { tenant, key, bytes, sha256 })
}

/// Records in their order, in parts. The external bodies of a part have at most `bytes` together; one alone
/// may have more.
pub fn parts(records: Vec<Record>, bytes: usize) -> Vec<Vec<Record>> {
    split_by_size(records, bytes as u64, |record| {
        if is_external(record) { place(record).map_or(0, |place| place.bytes as u64) } else { 0 }
    })
}

/// Fetches external bodies. `pause` lies between two tries to find one. Where a body has not failed for long, its
/// partition is held from there on.
///
/// # Errors
/// Where object storage does not answer or refuses: the records are to be read again then.
pub async fn read(
    objects: &ObjectStore,
    host: &Host,
    failing: &FailingBodies,
    records: Vec<Record>,
    held: &mut HeldPartitions,
    pause: Duration,
) -> Result<Vec<FetchedBody>, IndexerError> {
    let mut all = Vec::with_capacity(records.len());
    for record in records {
        let Some(mut record) = held.take(record) else { continue };
        if !is_external(&record) {
            all.push(FetchedBody::inline(record));
            continue;
        }
        let place = match place(&record) {
            Ok(place) => place,
            Err(why) => {
                all.push(FetchedBody { failed: Some(why), ..FetchedBody::inline(record) });
                continue;
            }
        };
        let (mut failed, mut fault) = (None, None);
        match body_or_fault(objects, host, failing, &place, pause).await {
            Ok(Ok(Ok(body))) => record.value = Some(body),
            Ok(Ok(Err(why))) => failed = Some(why),
            Ok(Err(failure)) => fault = Some(failure),
            Err(IndexerError::Objects(error @ StorageError::ObjectAtFault { .. })) => {
                held.hold(&record, error);
                continue;
            }
            Err(trouble) => return Err(trouble),
        }
        all.push(FetchedBody { key: Some(place.key), failed, fault, ..FetchedBody::inline(record) });
    }
    Ok(all)
}

/// The body; or why its object can't be read, where it alone is at fault: it fails several times and
/// for a while, and another external body can be read.
async fn body_or_fault(
    objects: &ObjectStore,
    host: &Host,
    failing: &FailingBodies,
    place: &Place,
    pause: Duration,
) -> Result<Result<Result<Bytes, Unreadable>, Failure>, IndexerError> {
    let mut tries = 1;
    loop {
        match body(objects, host, place, pause).await {
            Ok(read) => {
                failing.is_read(&place.key);
                return Ok(Ok(read));
            }
            Err(IndexerError::Objects(error @ StorageError::ObjectAtFault { .. })) if tries < TRIES => {
                tracing::warn!(object.key = %place.key, error = causes(&error), "a body can't be read");
                tries += 1;
                tokio::time::sleep(pause).await;
            }
            Err(IndexerError::Objects(error @ StorageError::ObjectAtFault { .. })) => {
                let lasts = failing.failed(&place.key, host.clock.monotonic());
                return match lasts && another_is_read(objects, place).await? {
                    true => Ok(Err(Failure::of_body(&error))),
                    false => Err(error.into()),
                };
            }
            Err(trouble) => return Err(trouble),
        }
    }
}

/// True where another external body of the tenant can be read. Where there is none, the store has to
/// answer.
async fn another_is_read(objects: &ObjectStore, place: &Place) -> Result<bool, StorageError> {
    let page = objects.list(&keys::outputs_prefix(&place.tenant), None, OTHERS).await?;
    let mut others = page.entries.into_iter().filter(|entry| entry.key != place.key).peekable();
    if others.peek().is_none() {
        return Ok(true);
    }
    for other in others {
        match objects.get_range(&other.key, 0..1).await {
            Ok(Some(_)) => return Ok(true),
            Ok(None) | Err(StorageError::ObjectAtFault { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// The body, or why there is none.
async fn body(
    objects: &ObjectStore,
    host: &Host,
    place: &Place,
    pause: Duration,
) -> Result<Result<Bytes, Unreadable>, IndexerError> {
    let limit = u64::try_from(place.bytes).unwrap_or(u64::MAX);
    let read = read_again(&place.key, pause, || async {
        let bytes = match objects.get(&place.key, limit).await {
            Ok(Some(object)) => object.bytes,
            Ok(None) => return Ok(Err(Wrong::Absent)),
            Err(StorageError::TooLarge { .. }) => return Ok(Err(Wrong::Longer)),
            Err(error) => return Err(IndexerError::from(error)),
        };
        let hashed = bytes.clone();
        let sha256 = host.cpu.run(move || ContentHash(Sha256::digest(&hashed).into())).await?;
        Ok(if sha256 == place.sha256 { Ok(bytes) } else { Err(Wrong::Other(sha256)) })
    });
    Ok(read.await?.map_err(|wrong| {
        let reason = if wrong == Wrong::Absent { "body_gone" } else { "damaged_body" };
        Unreadable { reason, detail: format!("{} {wrong}", place.key) }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_artifacts::{Fault, Operation, Put, READINGS};
    use unslide_model::FixedClock;
    use unslide_stream::{Headers, RecordRef};

    const KEY: &str = "t/acme/outputs/one";

    fn record(key: &str, body: &[u8]) -> Record {
        Record {
            at: RecordRef { topic: "out".into(), partition: 0, offset: 7 },
            time_millis: None,
            key: None,
            value: Some("{\"unslide_body\":{}}".into()),
            headers: Headers::new()
                .with(headers::TENANT, "acme")
                .with(headers::BODY_KEY, key.to_owned())
                .with(headers::BODY_BYTES, body.len().to_string())
                .with(headers::BODY_SHA256, ContentHash(Sha256::digest(body).into()).to_string()),
        }
    }

    async fn one(objects: &ObjectStore, record: Record) -> Result<FetchedBody, IndexerError> {
        after(objects, record, &FailingBodies::default(), Duration::ZERO).await
    }

    /// The same after a time.
    async fn after(
        objects: &ObjectStore,
        record: Record,
        failing: &FailingBodies,
        time: Duration,
    ) -> Result<FetchedBody, IndexerError> {
        let clock = FixedClock::at_micros(0);
        clock.advance_micros(i64::try_from(time.as_micros()).unwrap());
        let mut host = Host::local().unwrap();
        host.clock = Arc::new(clock);
        let (mut held, pause) = (HeldPartitions::default(), Duration::from_millis(1));
        let read = read(objects, &host, failing, vec![record], &mut held, pause).await?;
        held.finish(objects, &host, failing, pause).await?;
        Ok(read.into_iter().next().unwrap())
    }

    #[tokio::test]
    async fn a_body_kept_apart_is_fetched_and_held_against_its_size_and_hash() {
        let (objects, memory) = ObjectStore::memory();
        let acme = TenantId::new("acme").unwrap();
        let key = ObjectKey::of_tenant(&acme, KEY).unwrap();
        let body = vec![b'x'; 100];
        let gone = one(&objects, record(KEY, &body)).await.unwrap();
        assert_eq!(gone.failed.unwrap().reason, "body_gone");
        assert_eq!(memory.calls(Operation::Get), READINGS as usize);
        for stored in [vec![b'x'; 99], vec![b'x'; 101], vec![b'y'; 100]] {
            objects.put(&key, stored.into(), &Put::default()).await.unwrap();
            let other = one(&objects, record(KEY, &body)).await.unwrap();
            assert_eq!(other.failed.unwrap().reason, "damaged_body");
        }
        objects.put(&key, body.clone().into(), &Put::default()).await.unwrap();
        let right = one(&objects, record(KEY, &body)).await.unwrap();
        assert_eq!((right.failed, right.key), (None, Some(key)));
        assert_eq!(right.record.value.unwrap(), body);
        // What may pass by itself, and what an operator has to mend, is never taken for an answer.
        for fault in [Fault::Transient, Fault::Refused] {
            memory.fail(Operation::Get, "", fault, Some(1));
            one(&objects, record(KEY, &body)).await.unwrap_err();
        }
    }

    /// Proves: outages
    #[tokio::test]
    async fn a_body_that_was_changed_on_its_way_is_read_again_and_never_given_up() {
        let (objects, memory) = ObjectStore::memory();
        let key = ObjectKey::of_tenant(&TenantId::new("acme").unwrap(), KEY).unwrap();
        let body = vec![b'x'; 100];
        objects.put(&key, body.clone().into(), &Put::default()).await.unwrap();
        memory.fail(Operation::Get, "", Fault::Corrupted, Some(READINGS as usize - 1));
        let right = one(&objects, record(KEY, &body)).await.unwrap();
        assert_eq!((right.failed, right.record.value.unwrap()), (None, body.clone().into()));
        // Another one that is as bad shows that the store is.
        let other = ObjectKey::of_tenant(&TenantId::new("acme").unwrap(), "t/acme/outputs/two").unwrap();
        objects.put(&other, body.clone().into(), &Put::default()).await.unwrap();
        memory.fail(Operation::Get, "", Fault::Refused, None);
        let error = one(&objects, record(KEY, &body)).await.unwrap_err();
        assert!(matches!(error, IndexerError::Objects(StorageError::Refused { .. })), "{error:?}");
        memory.heal();
        memory.fail(Operation::Get, "/one", Fault::Corrupted, None);
        let failing = FailingBodies::default();
        let at = async |seconds| {
            let time = Duration::from_secs(seconds);
            Box::pin(after(&objects, record(KEY, &body), &failing, time)).await
        };
        for seconds in [0, 59] {
            let error = at(seconds).await.unwrap_err();
            assert!(matches!(error, IndexerError::Objects(StorageError::ObjectAtFault { .. })), "{error:?}");
        }
        assert_eq!(at(60).await.unwrap().fault.unwrap().reason, "body_at_fault");
        memory.fail(Operation::Get, "/two", Fault::Transient, None);
        let error = at(61).await.unwrap_err();
        assert!(matches!(error, IndexerError::Objects(StorageError::Transient { .. })), "{error:?}");
    }

    /// Proves: isolation
    #[tokio::test]
    async fn a_body_of_another_tenant_or_without_bounds_is_never_fetched() {
        let (objects, memory) = ObjectStore::memory();
        for (key, reason) in [
            ("t/other/outputs/one", "foreign_body"),
            ("t/acme/symbols/one", "foreign_body"),
            ("t/acme/../other/one", "foreign_body"),
        ] {
            assert_eq!(one(&objects, record(key, b"x")).await.unwrap().failed.unwrap().reason, reason);
        }
        let mut large = record(KEY, b"x");
        large.headers.set(headers::BODY_BYTES, (MAX_BODY_BYTES + 1).to_string());
        assert_eq!(one(&objects, large).await.unwrap().failed.unwrap().reason, "too_large");
        assert_eq!(memory.calls(Operation::Get), 0);
    }

    #[test]
    fn large_bodies_are_not_held_together() {
        let small = || Record { headers: Headers::new(), ..record(KEY, b"") };
        let sizes: Vec<usize> = parts(
            vec![
                small(),
                record(KEY, &[0; 60]),
                small(),
                record(KEY, &[0; 60]),
                record(KEY, &[0; 200]),
                small(),
            ],
            100,
        )
        .iter()
        .map(Vec::len)
        .collect();
        assert_eq!(sizes, [3, 1, 2]);
    }
}
