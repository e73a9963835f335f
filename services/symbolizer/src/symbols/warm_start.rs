//! Loads the symcaches of a partition that is new to this worker, before its first record is taken.
//!
//! Each worker writes which symcaches its partitions used, to a compacted topic. The next worker of a partition loads
//! them, within limits of bytes and time. Without a readable list, reports fetch their symcaches themselves. All workers read
//! there which partitions a tenant uses, too.

use crate::admission::tenant_partitions::TenantPartitions;
use crate::symbols::used_symbols::{UsedSymbols, read_list, read_tenants};
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use unslide_artifacts::SymcacheCache;
use unslide_model::{Clock, DebugId, Owned, Owner, TenantId};
use unslide_proto::keys;
use unslide_stream::lane::TopicShare;
use unslide_stream::{OutRecord, Producer, Record, RecordRef, Settings, StreamError, TailEvent, TailReader};
use unslide_symbolicate::ImageSymbols;

/// Longest time for which the records of a partition wait for its symcaches.
const LOAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a record that waits is looked at again. Each look costs a fetch.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Interval at which a worker looks which lists are due.
const LIST_INTERVAL: Duration = Duration::from_secs(60);
/// Longest time for which a worker that stops writes its lists.
const LAST_LISTS_TIMEOUT: Duration = Duration::from_secs(1);
/// Symcaches of one partition that are loaded at the same time.
const CONCURRENT_LOADS: usize = 8;
/// Divisor for the share of the cache's downloads that loads may use. Reports of other partitions use the rest.
const SHARE_OF_DOWNLOADS: usize = 4;
/// Divisor for the share of the cache's bytes that the loads of all partitions may fill.
const SHARE_OF_BYTES: u64 = 2;

type TopicPartition = (Arc<str>, i32);

/// Newest list of each partition, by key.
type Lists = Arc<Mutex<HashMap<Bytes, Bytes>>>;

/// Limits of the cache, which loads have a share of.
#[derive(Clone, Copy, Debug)]
pub struct WarmStartLimits {
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Concurrent downloads of the cache.
    pub downloads: usize,
}

/// The partitions of the live lane, with the symcaches that they use.
pub struct WarmStart {
    cache: SymcacheCache,
    clock: Arc<dyn Clock>,
    runtime: Handle,
    downloads: Semaphore,
    cache_bytes: u64,
    topic: String,
    lists: Lists,
    reader: TailReader,
    /// Partitions that each tenant uses.
    pub tenant_partitions: Arc<TenantPartitions>,
    partitions: Mutex<HashMap<TopicPartition, WarmPartition>>,
}

/// Records the tenants that the list of a partition names. The list is as old as the record, by the clocks of both.
fn record_tenants(
    partitions: &TenantPartitions,
    key: &[u8],
    list: &[u8],
    time_millis: Option<i64>,
    clock: &dyn Clock,
) {
    let Some((topic, partition)) = keys::read_partition(key) else { return };
    let tenants = read_tenants(list);
    let now = clock.monotonic_micros();
    let age_of = |time: i64| clock.now_micros().saturating_sub(time.saturating_mul(1_000)).max(0);
    let age = time_millis.map_or(0, age_of);
    partitions.record_list(topic, partition, &tenants, now.saturating_sub(age), now);
}

struct WarmPartition {
    used: UsedSymbols,
    /// The end of the time for which records wait while symcaches are loaded.
    loading_until: Option<Instant>,
}

impl WarmStart {
    /// Starts to read the lists.
    pub fn start(
        settings: &Settings,
        cache: SymcacheCache,
        clock: Arc<dyn Clock>,
        limits: WarmStartLimits,
    ) -> Result<Arc<WarmStart>, StreamError> {
        let lists = Lists::default();
        let tenant_partitions = Arc::new(TenantPartitions::default());
        let (read, tenants, now) = (Arc::clone(&lists), Arc::clone(&tenant_partitions), Arc::clone(&clock));
        let topic = settings.topic_names().used_symbols;
        let reader = TailReader::start(settings, &topic, Arc::clone(&clock), move |event| {
            if let TailEvent::Record(Record { key: Some(key), value: Some(value), time_millis, .. }) = event {
                record_tenants(&tenants, &key, &value, time_millis, &*now);
                read.lock().insert(key, value);
            }
        })?;
        Ok(Arc::new(WarmStart {
            cache,
            clock,
            runtime: Handle::current(),
            downloads: Semaphore::new((limits.downloads / SHARE_OF_DOWNLOADS).max(1)),
            cache_bytes: limits.cache_bytes,
            topic,
            lists,
            reader,
            tenant_partitions,
            partitions: Mutex::default(),
        }))
    }

    /// Waits until the lists are read, but not long: a worker can start without them.
    pub async fn wait_for_lists(&self) {
        if timeout(LOAD_TIMEOUT, self.reader.caught_up()).await.is_err() {
            tracing::warn!("the lists of used symcaches are not read to their end: starting without");
        }
    }

    /// Begins to load the symcaches of new partitions, and forgets partitions that another worker has now.
    pub fn set_assigned(self: &Arc<Self>, shares: &[TopicShare]) {
        let places =
            shares.iter().flat_map(|share| share.partitions.iter().map(|p| (share.topic.clone(), *p)));
        let assigned: Vec<TopicPartition> = places.collect();
        let mut partitions = self.partitions.lock();
        partitions.retain(|place, _| assigned.contains(place));
        let count = assigned.len();
        for place in assigned {
            partitions.entry(place).or_insert_with_key(|place| self.begin_partition(place, count));
        }
    }

    /// Returns when the record may be processed, or `None` for now. Its partition may be so new that the lane has
    /// not reported it yet.
    pub fn not_before(self: &Arc<Self>, record: &Record) -> Option<Instant> {
        let place = (Arc::clone(&record.at.topic), record.at.partition);
        let mut partitions = self.partitions.lock();
        let count = partitions.len() + 1;
        let partition =
            partitions.entry(place).or_insert_with_key(|place| self.begin_partition(place, count));
        let now = Instant::now();
        let until = partition.loading_until.filter(|until| *until > now)?;
        Some(until.min(now + LOOK_INTERVAL))
    }

    /// Returns a new partition. Its symcaches are loaded in a task, unless all are here.
    fn begin_partition(self: &Arc<Self>, place: &TopicPartition, count: usize) -> WarmPartition {
        let key = keys::for_partition(&place.0, place.1);
        let list = self.lists.lock().get(key.as_bytes()).cloned();
        let listed = list.map(|list| read_list(&list)).unwrap_or_default();
        let used = UsedSymbols::from_list(&listed, self.clock.monotonic_micros());
        let cold: Vec<Owned<DebugId>> =
            listed.into_iter().filter(|id| self.cache.peek_owned(id).is_none()).collect();
        if cold.is_empty() {
            return WarmPartition { used, loading_until: None };
        }
        let until = Instant::now() + LOAD_TIMEOUT;
        let most_bytes = self.cache_bytes / SHARE_OF_BYTES / count.max(1) as u64;
        self.runtime.spawn(Arc::clone(self).load_symcaches(place.clone(), cold, most_bytes, until));
        WarmPartition { used, loading_until: Some(until) }
    }

    /// Loads symcaches in the order of the list until the bytes or the time are used up.
    async fn load_symcaches(
        self: Arc<Self>,
        place: TopicPartition,
        cold: Vec<Owned<DebugId>>,
        most_bytes: u64,
        until: Instant,
    ) {
        let (count, begun) = (cold.len(), Instant::now());
        let (mut loaded, mut bytes) = (0, 0);
        let all = async {
            let this = &*self;
            let loads = futures::stream::iter(cold).map(|id| async move { this.load_symcache(&id).await });
            let mut loads = loads.buffered(CONCURRENT_LOADS);
            while let Some(size) = loads.next().await {
                loaded += usize::from(size > 0);
                bytes += size;
                if bytes >= most_bytes {
                    break;
                }
            }
        };
        let in_time = timeout_at(until, all).await.is_ok();
        if let Some(partition) = self.partitions.lock().get_mut(&place) {
            partition.loading_until = None;
        }
        tracing::info!(
            topic = &*place.0,
            partition = place.1,
            listed = count,
            loaded,
            bytes,
            in_time,
            seconds = begun.elapsed().as_secs_f64(),
            "symcaches of a new partition were loaded"
        );
    }

    /// Loads one symcache. Returns its size, or 0 if there is none now.
    async fn load_symcache(&self, id: &Owned<DebugId>) -> u64 {
        let Ok(_permit) = self.downloads.acquire().await else { return 0 };
        match self.cache.get_owned(id).await {
            Ok(ImageSymbols::Found { symcache, .. }) => symcache.bytes().len() as u64,
            Ok(_) => 0,
            // A report that needs it will try again, and count the failure.
            Err(error) => {
                tracing::debug!(debug.id = %id.id, error = %error, "a listed symcache cannot be loaded");
                0
            }
        }
    }

    /// Records the symcaches that a report used; `true` for the system's.
    pub fn record_use(&self, at: &RecordRef, tenant: &TenantId, found: &[(DebugId, bool)]) {
        if found.is_empty() {
            return;
        }
        let owner = |is_system| if is_system { Owner::System } else { Owner::from(tenant) };
        let now = self.clock.monotonic_micros();
        if let Some(partition) = self.partitions.lock().get_mut(&(Arc::clone(&at.topic), at.partition)) {
            partition.used.record_use(found.iter().map(|(id, system)| owner(*system).own(*id)), now);
        }
    }

    /// Writes the lists of all partitions with new uses that are due. A list that cannot be written is written later.
    /// `is_last` is true if the worker stops.
    pub async fn write_lists(&self, producer: &Producer, is_last: bool) {
        let now = self.clock.monotonic_micros();
        let lists: Vec<OutRecord> = {
            let mut partitions = self.partitions.lock();
            let due = partitions.iter_mut().filter_map(|((topic, partition), state)| {
                let tenants = self.tenant_partitions.list_tenants(topic, *partition, now);
                let list = state.used.take_list(&tenants, now, is_last)?;
                let key = keys::for_partition(topic, *partition);
                Some(OutRecord::for_topic(self.topic.as_str(), list).key(key))
            });
            due.collect()
        };
        if let Err(error) = producer.send_all(&lists).await {
            tracing::warn!(error = %error, "the lists of used symcaches cannot be written");
        }
    }

    /// Writes the lists now and then. Never returns.
    pub async fn keep_writing(&self, producer: &Producer) {
        loop {
            tokio::time::sleep(LIST_INTERVAL).await;
            self.write_lists(producer, false).await;
        }
    }

    /// Writes the lists of a worker that is about to stop.
    pub async fn write_last_lists(&self, producer: &Producer) {
        if timeout(LAST_LISTS_TIMEOUT, self.write_lists(producer, true)).await.is_err() {
            tracing::warn!("the last lists of used symcaches are not written");
        }
    }
}
