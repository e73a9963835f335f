//! A worker on a real Kafka, with object storage in memory and a clock that can be set ahead.

use super::retry_progress::{RetryProgress, WatchedRetry};
use crate::admission::sender::SenderChecks;
use crate::admission::tenant_rates::TenantRates;
use crate::admission::tenants::Tenants;
use crate::enricher::Enricher;
use crate::lanes::batch::LaneResources;
use crate::lanes::live::{self, Live};
use crate::lanes::resymbolicate::{self, Requests};
use crate::lanes::retry::{self, Retry};
use crate::metrics::Metrics;
use crate::output::dead_letters::DeadLetterTopic;
use crate::output::outcomes::OutcomeWriter;
use crate::output::tenant_topics::Outputs;
use crate::output::traces::RecordTraces;
use crate::run::{IDLE_FETCH, SYMBOL_FETCH_TIMEOUT, probe_lane};
use crate::symbols::SymbolSource;
use crate::symbols::breaker::{Breaker, BreakerLimits};
use crate::symbols::patience::Patience;
use crate::symbols::warm_start::{WarmStart, WarmStartLimits};
use crate::worker::Worker;
use parking_lot::Mutex;
use prost::Message;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use time::OffsetDateTime;
use unslide_artifacts::{AliasMeta, CacheSettings, Memory, ObjectStore, Put, SymcacheCache, keys};
use unslide_model::{Clock, ContentHash, DebugId, Quality, RelativeAddress, SystemClock, TenantId};
use unslide_proto::report::ledger_record::Entry;
use unslide_proto::report::resymbolicate::Body;
use unslide_proto::report::{LedgerRecord, Need, Outcome, Resymbolicate, TerminalOutcome};
use unslide_proto::symbol::{TenantConfig, TenantLimits, TenantState};
use unslide_proto::topics::TopicNames;
use unslide_proto::trace::Ids;
use unslide_proto::{body, headers};
use unslide_report::ReadLimits;
use unslide_report::reader::ReportReaders;
use unslide_runtime::traces::Tracer;
use unslide_runtime::{CpuPool, Host};
use unslide_stream::lane::{Lane, LaneConfig, LaneStatus, Suspects, Timings};
use unslide_stream::{
    BatchLimits, Headers, OutRecord, Producer, Record, Settings, SignatureSettings, Signatures, TopicLookUps,
    admin, scan,
};
use unslide_symbolicate::object::build_symcache;
use unslide_symbolicate::symcache::{SYMCACHE_VERSION, SymCache};
use unslide_testkit::reports::{ARM64, Frame, Image, Report, Thread};
use unslide_testkit::servers;

/// The Mach-O file of a small dSYM.
const DSYM: &[u8] = include_bytes!("../../../../crates/symbolicate/tests/data/app.dsym");
const LOAD: u64 = 0x1_0400_0000;

/// The small app's symcache, and an address of it that has a function.
pub struct App {
    pub id: DebugId,
    pub symcache: Vec<u8>,
    pub address: RelativeAddress,
}

impl App {
    pub fn new() -> App {
        App::of(DSYM)
    }

    /// The same app with another debug id.
    pub fn numbered(number: u8) -> App {
        let (mut dsym, id) = (DSYM.to_vec(), App::new().id.0);
        let at = dsym.windows(16).position(|bytes| bytes == id).unwrap();
        dsym[at] = number;
        App::of(&dsym)
    }

    pub fn of(dsym: &[u8]) -> App {
        let built = build_symcache(dsym).unwrap();
        let symcache = SymCache::parse(built.symcache.clone()).unwrap();
        let first = symcache.ranges().find(|(_, answer)| answer.is_some()).unwrap().0;
        App { id: built.debug_id, symcache: built.symcache, address: first }
    }

    pub fn sha256(&self) -> ContentHash {
        ContentHash(Sha256::digest(&self.symcache).into())
    }

    /// What a request needs for which these symbols are of this generation.
    pub fn needs(&self, generation: u64) -> Vec<Need> {
        vec![Need { debug_id: self.id.0.to_vec().into(), generation, system: false }]
    }

    pub fn report(&self, number: u32, frames: usize) -> Vec<u8> {
        self.report_of(self.id, number, frames)
    }

    /// The same, of a binary with another debug id.
    pub fn report_of(&self, id: DebugId, number: u32, frames: usize) -> Vec<u8> {
        let crash = LOAD + self.address.0;
        let image =
            Image::new("/private/var/Shop.app/Shop", &id.to_string(), LOAD).size(0x10_0000).cpu(ARM64);
        let thread = Thread::new(0).frames([Frame::at(crash)]).crashed().all_registers(ARM64, crash);
        // The innermost frame is where its thread is; behind it are return addresses.
        let at = |depth| if depth == 0 { crash } else { crash + 4 };
        let other = Thread::new(1).frames((0..frames).map(|depth| Frame::at(at(depth))));
        let id = format!("00000000-0000-4000-8000-0000{number:08x}");
        Report::standard().id(&id).image(image).thread(thread).thread(other).bytes()
    }
}

/// Seconds that a worker's clock is ahead, or a moment at which it stands still.
#[derive(Default)]
pub struct TestClock {
    ahead_micros: AtomicI64,
    /// By how much the wall clock was set.
    stepped_micros: AtomicI64,
    /// By the wall clock and by the monotonic one.
    stands_at: Mutex<Option<(i64, i64)>>,
}

impl TestClock {
    pub fn ahead(&self, seconds: i64) {
        self.ahead_micros.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }

    pub fn stand(&self) {
        *self.stands_at.lock() = Some((SystemClock.now_micros(), SystemClock.monotonic_micros()));
    }

    pub fn is_standing(&self) -> bool {
        self.stands_at.lock().is_some()
    }

    /// Sets the wall clock, while no time passes.
    pub fn step(&self, seconds: i64) {
        self.stepped_micros.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> OffsetDateTime {
        let micros = self.stands_at.lock().map_or_else(|| SystemClock.now_micros(), |(wall, _)| wall);
        let ahead = self.ahead_micros.load(Ordering::SeqCst) + self.stepped_micros.load(Ordering::SeqCst);
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros + ahead) * 1_000).unwrap()
    }

    fn monotonic_time(&self) -> Duration {
        let stands = *self.stands_at.lock();
        let micros = stands.map_or_else(|| SystemClock.monotonic_micros(), |(_, monotonic)| monotonic);
        Duration::from_micros((micros + self.ahead_micros.load(Ordering::SeqCst)).unsigned_abs())
    }
}

/// What a test wants of its worker.
pub struct Wishes {
    pub output_bytes: Option<usize>,
    pub most_outputs: usize,
    pub patience: Duration,
    /// While nothing else is there to do.
    pub idle_patience: Duration,
    pub breaker: BreakerLimits,
    pub signatures: SignatureSettings,
    /// Of acme.
    pub limits: TenantLimits,
    pub tenant_topics: bool,
    pub input_partitions: i32,
    pub overflow_partitions: i32,
    pub record_bytes: usize,
    pub readers: ReportReaders,
    pub cache_bytes: u64,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            output_bytes: None,
            most_outputs: 128 << 20,
            patience: Duration::from_secs(5),
            idle_patience: IDLE_FETCH,
            breaker: BreakerLimits {
                debug_ids: 100,
                window: Duration::from_secs(30),
                open: Duration::from_secs(1),
            },
            signatures: SignatureSettings::default(),
            limits: TenantLimits::default(),
            tenant_topics: false,
            input_partitions: 4,
            overflow_partitions: 4,
            record_bytes: 20 << 20,
            readers: ReportReaders::default(),
            cache_bytes: 1 << 30,
        }
    }
}

pub struct Bench {
    pub settings: Settings,
    pub names: TopicNames,
    pub producer: Producer,
    pub store: ObjectStore,
    pub memory: Memory,
    pub clock: Arc<TestClock>,
    pub worker: Arc<Worker>,
    pub registry: prometheus::Registry,
    pub retries: Arc<RetryProgress>,
    live_patience: Patience,
    _folder: tempfile::TempDir,
}

impl Bench {
    pub async fn new() -> Bench {
        Bench::with(Wishes::default()).await
    }

    pub async fn with(wishes: Wishes) -> Bench {
        let mut settings = Settings::single_broker(servers::kafka());
        settings.topic_prefix = format!("{}.", servers::unique("symbolizer"));
        settings.tenant_topics = wishes.tenant_topics;
        settings.partitions.input = wishes.input_partitions;
        settings.partitions.overflow = wishes.overflow_partitions;
        // Who sends keeps to no limit of this installation.
        let producer = Producer::new(&settings).unwrap();
        settings.max_record_bytes = wishes.record_bytes;
        admin::create_topics(&settings).await.unwrap();
        let names = settings.topic_names();
        for (tenant, state) in [("acme", TenantState::Active), ("gone", TenantState::Deleted)] {
            tell(&producer, &names, tenant, state, wishes.limits).await;
        }
        tell(&producer, &names, "other", TenantState::Active, TenantLimits::default()).await;
        Bench::start_worker(settings, producer, ObjectStore::memory(), "w", wishes).await
    }

    /// Another worker of the same installation, with a cache of its own.
    pub async fn beside(&self, slot: &str, wishes: Wishes) -> Bench {
        let store = (self.store.clone(), self.memory.clone());
        Bench::start_worker(self.settings.clone(), self.producer.clone(), store, slot, wishes).await
    }

    async fn start_worker(
        settings: Settings,
        producer: Producer,
        (store, memory): (ObjectStore, Memory),
        slot: &str,
        wishes: Wishes,
    ) -> Bench {
        let names = settings.topic_names();
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheSettings::new(folder.path().join("cache"), wishes.cache_bytes);
        let cache = SymcacheCache::open(cache, store.clone(), Arc::new(SystemClock)).unwrap();
        // What is known of the tenants is as old as it is, whatever the worker's clock says.
        let tenants = Tenants::start(&settings, Arc::new(SystemClock), |_| {}).unwrap();
        tenants.caught_up().await.unwrap();
        let clock = Arc::new(TestClock::default());
        let breaker = Arc::new(Breaker::new(wishes.breaker));
        let probe = Duration::from_secs(5);
        let registry = prometheus::Registry::new();
        let tenants = Arc::new(tenants);
        let limits = WarmStartLimits { cache_bytes: wishes.cache_bytes, downloads: 32 };
        let warm_start = WarmStart::start(&settings, cache.clone(), clock.clone(), limits).unwrap();
        warm_start.wait_for_lists().await;
        let traces =
            Arc::new(RecordTraces { ids: Ids::default(), tracer: Tracer::default(), clock: clock.clone() });
        let worker = Worker {
            senders: Arc::new(SenderChecks {
                tenants: tenants.clone(),
                signatures: Signatures::new(&wishes.signatures),
                topics: names.clone(),
                clock: clock.clone(),
                tenant_units_per_second: 0,
            }),
            enricher: Enricher {
                symbols: SymbolSource::new(cache, store.clone(), breaker, clock.clone(), 32, probe),
                tenants,
                readers: wishes.readers,
                limits: ReadLimits { max_bytes: wishes.record_bytes, ..ReadLimits::default() },
                analyses: Vec::new(),
                topics: names.clone(),
                tenant_topics: settings.tenant_topics,
                outputs: Outputs::new(&settings),
                output_bytes: wishes.output_bytes.unwrap_or(settings.max_output_bytes()),
            },
            outcomes: OutcomeWriter {
                slot: slot.to_owned(),
                topics: names.clone(),
                letters: DeadLetterTopic {
                    topic: names.dead_letter.clone(),
                    most_bytes: settings.max_copy_bytes(),
                },
                traces: traces.clone(),
                cells: TopicLookUps::new(&settings),
            },
            warm_start,
            traces,
            clock: clock.clone(),
            topics: names.clone(),
            objects: store.clone(),
            most_outputs: wishes.most_outputs,
            metrics: Metrics::new(&registry).unwrap(),
        };
        let (worker, live_patience) =
            (Arc::new(worker), Patience::while_idle(wishes.patience, wishes.idle_patience));
        let watched = worker.clone();
        tokio::spawn(async move { watched.enricher.outputs.watch_topics().await });
        Bench {
            settings,
            names,
            producer,
            store,
            memory,
            clock,
            worker,
            registry,
            retries: Arc::default(),
            live_patience,
            _folder: folder,
        }
    }

    pub async fn tell(&self, tenant: &str, state: TenantState) {
        tell(&self.producer, &self.names, tenant, state, TenantLimits::default()).await;
    }

    fn config(&self, name: &str, topics: Vec<String>) -> LaneConfig {
        LaneConfig {
            name: name.to_owned(),
            worker: self.worker.outcomes.slot.clone(),
            topics,
            pattern: None,
            batch: BatchLimits { records: 50, bytes: 8 << 20, wait: Duration::from_millis(10) },
            timings: Timings::default(),
            suspects: Suspects::default(),
        }
    }

    fn resources(&self, patience: Patience) -> LaneResources {
        LaneResources { worker: self.worker.clone(), cpu: CpuPool::new(2).unwrap(), patience }
    }

    pub fn live(&self) -> Lane {
        let partitions = self.worker.warm_start.tenant_partitions.clone();
        let shares = Arc::new(TenantRates::new(Duration::from_secs(2)).with_partitions(partitions));
        let processor = Live::new(self.resources(self.live_patience.clone()), shares);
        let observer = self.worker.metrics.lane_observer(live::LIVE_LANE);
        let mut topics = vec![self.names.input.clone()];
        if self.settings.tenant_topics {
            topics.push(self.names.tenant_input(&acme()));
        }
        Lane::start(&self.settings, self.config(live::LIVE_LANE, topics), Arc::new(processor), observer)
            .unwrap()
    }

    pub fn retry(&self) -> Lane {
        let shares = Arc::new(TenantRates::new(Duration::from_secs(2)));
        let retry = Arc::new(Retry::new(self.resources(Patience::fixed(SYMBOL_FETCH_TIMEOUT)), shares));
        let processor = WatchedRetry { retry, clock: self.clock.clone(), progress: self.retries.clone() };
        let observer = self.worker.metrics.lane_observer(retry::RETRY_LANE);
        let config = self.config(retry::RETRY_LANE, retry::lane_topics(&self.worker));
        Lane::start(&self.settings, config, Arc::new(processor), observer).unwrap()
    }

    pub fn again(&self) -> Lane {
        let processor = Requests::new(self.resources(Patience::fixed(SYMBOL_FETCH_TIMEOUT)));
        let observer = self.worker.metrics.lane_observer(resymbolicate::RESYMBOLICATE_LANE);
        let config = self.config(resymbolicate::RESYMBOLICATE_LANE, vec![self.names.resymbolicate.clone()]);
        Lane::start(&self.settings, config, Arc::new(processor), observer).unwrap()
    }

    pub async fn input(&self, tenant: Option<&str>, value: impl Into<bytes::Bytes>) {
        let mut headers = Headers::new();
        if let Some(tenant) = tenant {
            headers.push(headers::TENANT, tenant.to_owned());
        }
        self.input_with(&self.names.input, headers, value).await;
    }

    pub async fn input_with(&self, topic: &str, headers: Headers, value: impl Into<bytes::Bytes>) {
        let mut record = OutRecord::for_topic(topic, value);
        record.headers = headers.with(headers::TRACEPARENT, TRACE);
        self.producer.send_record(&record).await.unwrap();
    }

    /// A request about the report of this output; `stored` is the body that is sent along. Returns its value.
    pub async fn ask(&self, about: &Record, stored: &[u8], wishes: Resymbolicate) -> bytes::Bytes {
        let id =
            about.headers.get_text(headers::REPORT_ID).unwrap().parse::<unslide_model::ReportId>().unwrap();
        let request = Resymbolicate {
            tenant: "acme".into(),
            report_id: id.0.to_vec().into(),
            supersedes: wishes.revision - 1,
            body: Some(Body::InlineLz4(body::compress_report(stored).into())),
            ..wishes
        };
        let record = OutRecord::for_topic(self.names.resymbolicate.as_str(), request.encode_to_vec());
        self.producer.send_record(&record).await.unwrap();
        record.value.unwrap()
    }

    pub async fn read(&self, topic: &str) -> Vec<Record> {
        scan::whole_topic(&self.settings, topic).await.unwrap()
    }

    /// Nothing is waited for here: what a topic holds now, as the reasons and attempts of its records.
    pub async fn reasons(&self, topic: &str) -> Vec<(String, u32)> {
        let read = self.read(topic).await.into_iter();
        let told = |r: Record| {
            let attempt = r.headers.get_number(headers::ATTEMPT).unwrap_or(0);
            (r.headers.get_text(headers::REASON).unwrap_or("-").to_owned(), attempt)
        };
        read.map(told).collect()
    }

    /// The records of a topic once there are `count`.
    pub async fn wait(&self, topic: &str, count: usize) -> Vec<Record> {
        for _ in 0..1_500 {
            let records = self.read(topic).await;
            if records.len() >= count {
                return records;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let mut elsewhere = Vec::new();
        for other in
            [&self.names.overflow, &self.names.retry_1s, &self.names.retry_10s, &self.names.dead_letter]
        {
            elsewhere.push(self.reasons(other).await);
        }
        let found = self.read(topic).await.len();
        panic!("{topic} has {found} records and not {count}; overflow, retry, dead letters: {elsewhere:?}");
    }

    /// Waits for the same, while the worker's clock goes on by two seconds at each look.
    pub async fn wait_while_time_passes(&self, topic: &str, count: usize) -> Vec<Record> {
        for _ in 0..1_500 {
            if self.read(topic).await.len() >= count {
                break;
            }
            self.clock.ahead(2);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.wait(topic, count).await
    }

    /// Returns once the worker has read the table of the tenants.
    pub async fn tenants_read(&self) {
        for _ in 0..3_000 {
            if self.worker.senders.tenants.refresh_table().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the tenants were not read");
    }

    /// The outcomes and revisions of single records that ended, once the ledger has one.
    pub async fn terminals(&self) -> Vec<(Outcome, u32)> {
        self.wait_ends().await.iter().map(|end| (end.outcome(), end.revision)).collect()
    }

    /// Ends of single records that the ledger has now.
    pub async fn ends(&self) -> Vec<TerminalOutcome> {
        let ledger = self.read(&self.names.ledger).await;
        let entries = ledger.into_iter().map(|r| LedgerRecord::decode(r.value.unwrap()).unwrap());
        let terminal = entries.filter_map(|record| match record.entry {
            Some(Entry::Terminal(end)) => Some(end),
            _ => None,
        });
        terminal.collect()
    }

    /// The same, once there is one.
    pub async fn wait_ends(&self) -> Vec<TerminalOutcome> {
        for _ in 0..1_500 {
            let ends = self.ends().await;
            if !ends.is_empty() {
                return ends;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("no single record has ended in the ledger");
    }

    pub async fn publish(&self, app: &App, generation: u64) {
        let meta = AliasMeta {
            generation,
            quality: Quality::DwarfSymtab,
            sha256: app.sha256(),
            object: ContentHash([9; 32]),
        };
        let key = keys::for_symbols(acme().scope(app.id)).alias(SYMCACHE_VERSION);
        let put = Put { metadata: meta.to_metadata(), ..Put::default() };
        self.store.put(&key, app.symcache.clone().into(), &put).await.unwrap();
    }

    pub async fn end(self, mut lanes: Vec<Lane>) {
        for lane in &lanes {
            lane.stop(Duration::from_secs(10));
        }
        for lane in &mut lanes {
            lane.wait_for_end().await.unwrap();
        }
        admin::delete_topics(&self.settings).await.unwrap();
    }
}

pub const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub fn acme() -> TenantId {
    TenantId::new("acme").unwrap()
}

pub fn json(record: &Record) -> serde_json::Value {
    serde_json::from_slice(record.value.as_ref().unwrap()).unwrap()
}

/// Frames with a function from the symbols.
pub fn symbolicated(record: &Record) -> u64 {
    json(record)["symbolication"]["frames"]["symbolicated"].as_u64().unwrap_or(0)
}

/// Waits until the lane's status is as wanted.
pub async fn until(lane: &Lane, wanted: impl FnMut(&LaneStatus) -> bool) -> LaneStatus {
    let mut status = lane.status();
    let waited = tokio::time::timeout(Duration::from_secs(300), status.wait_for(wanted)).await;
    waited.expect("the lane gets there").unwrap().clone()
}

pub async fn paused(lane: &Lane) -> LaneStatus {
    until(lane, |s| s.paused.is_some()).await
}

/// Why readiness says that a lane is not ready.
pub async fn unready(lane: &Lane) -> String {
    let host = Host::local().unwrap();
    probe_lane(&host, "live", lane.status());
    host.health.ask_now().await.probes.remove("lane live").unwrap().reason.unwrap()
}

pub async fn tell(
    producer: &Producer,
    names: &TopicNames,
    tenant: &str,
    state: TenantState,
    limits: TenantLimits,
) {
    let config = TenantConfig {
        tenant: tenant.into(),
        version: 1,
        state: state as i32,
        limits: Some(limits),
        ..TenantConfig::default()
    };
    let record =
        OutRecord::for_topic(names.tenant_config.as_str(), config.encode_to_vec()).key(tenant.to_owned());
    producer.send_record(&record).await.unwrap();
}
