//! Both lanes against a real Kafka, with object storage in memory.

use crate::live::{self, Live};
use crate::metrics::Metrics;
use crate::resymbolicate::{self, Again};
use crate::symbols::Symbols;
use crate::tenants::Tenants;
use crate::worker::Worker;
use prost::Message;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::{
    AliasMeta, CacheSettings, Fault, Memory, ObjectStore, Operation, Put, SymcacheCache, keys,
};
use unslide_model::{ContentHash, DebugId, Quality, RelativeAddress, SystemClock, TenantId};
use unslide_proto::report::{
    LedgerRecord, Need, Outcome, Resymbolicate, ledger_record::Entry, resymbolicate::Body,
};
use unslide_proto::symbol::{TenantConfig, TenantState};
use unslide_proto::topics::TopicNames;
use unslide_proto::trace::Ids;
use unslide_proto::{body, headers};
use unslide_report::ReadLimits;
use unslide_runtime::CpuPool;
use unslide_stream::lane::{Lane, LaneConfig, LaneStatus, Timings};
use unslide_stream::{
    BatchLimits, Headers, OutRecord, PositionedConsumer, Producer, Record, Settings, admin, topic_facts,
};
use unslide_symbolicate::object::{Limits, build};
use unslide_symbolicate::symcache::{SymCache, VERSION};
use unslide_testkit::reports::{ARM64, Frame, Image, Report, Thread};
use unslide_testkit::servers;

/// The Mach-O file of a small dSYM.
const DSYM: &[u8] = include_bytes!("../../../crates/symbolicate/tests/data/app.dsym");
const LOAD: u64 = 0x1_0400_0000;

/// The small app's symcache, and an address of it that has a function.
struct App {
    id: DebugId,
    symcache: Vec<u8>,
    address: RelativeAddress,
}

impl App {
    fn new() -> App {
        let built = build(DSYM, &Limits::default()).unwrap();
        let symcache = SymCache::parse(built.symcache.clone()).unwrap();
        let first = symcache.ranges().find(|(_, answer)| answer.is_some()).unwrap().0;
        App { id: built.debug_id, symcache: built.symcache, address: first }
    }

    fn report(&self, number: u32, frames: usize) -> Vec<u8> {
        let crash = LOAD + self.address.0;
        let image =
            Image::new("/private/var/Shop.app/Shop", &self.id.to_string(), LOAD).size(0x10_0000).cpu(ARM64);
        let thread = Thread::new(0).frames([Frame::at(crash)]).crashed().all_registers(ARM64, crash);
        let other = Thread::new(1).frames((0..frames).map(|_| Frame::at(crash + 1)));
        let id = format!("00000000-0000-4000-8000-0000{number:08x}");
        Report::standard().id(&id).image(image).thread(thread).thread(other).bytes()
    }
}

struct Bench {
    settings: Settings,
    names: TopicNames,
    producer: Producer,
    store: ObjectStore,
    memory: Memory,
    worker: Arc<Worker>,
    _folder: tempfile::TempDir,
}

impl Bench {
    async fn new(output_bytes: Option<usize>) -> Bench {
        let mut settings = Settings::single_broker(servers::kafka());
        settings.topic_prefix = format!("{}.", servers::unique("symbolizer"));
        admin::create(&settings).await.unwrap();
        let (names, producer) = (settings.topics(), Producer::new(&settings).unwrap());
        for (tenant, state) in [("acme", TenantState::Active), ("gone", TenantState::Deleted)] {
            let config = TenantConfig {
                tenant: tenant.into(),
                version: 1,
                state: state as i32,
                ..TenantConfig::default()
            };
            let record = OutRecord::to(names.tenant_config.as_str(), config.encode_to_vec()).key(tenant);
            producer.send(&record).await.unwrap();
        }
        let (store, memory) = ObjectStore::memory();
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheSettings::new(folder.path().join("cache"), 1 << 30);
        let cache = SymcacheCache::open(cache, store.clone(), Arc::new(SystemClock)).unwrap();
        let tenants = Tenants::start(&settings, Arc::new(SystemClock), |_| {}).unwrap();
        tenants.caught_up().await.unwrap();
        let worker = Worker {
            clock: Arc::new(SystemClock),
            cpu: CpuPool::new(2).unwrap(),
            tenants: Arc::new(tenants),
            symbols: Symbols::new(cache, Duration::from_secs(5)),
            topics: names.clone(),
            limits: ReadLimits::default(),
            output_bytes: output_bytes.unwrap_or(settings.max_output_bytes()),
            ids: Ids::default(),
            metrics: Metrics::new(&prometheus::Registry::new()).unwrap(),
        };
        Bench { settings, names, producer, store, memory, worker: Arc::new(worker), _folder: folder }
    }

    fn config(&self, name: &str, topic: &str) -> LaneConfig {
        LaneConfig {
            name: name.to_owned(),
            worker: "w".to_owned(),
            topics: vec![topic.to_owned()],
            pattern: None,
            batch: BatchLimits { records: 50, bytes: 8 << 20, wait: Duration::from_millis(10) },
            timings: Timings::default(),
        }
    }

    fn live(&self) -> Lane {
        let processor = Arc::new(Live::new(self.worker.clone(), "w"));
        let observer = self.worker.metrics.lane(live::NAME);
        Lane::start(&self.settings, self.config(live::NAME, &self.names.input), processor, observer).unwrap()
    }

    fn again(&self) -> Lane {
        let processor = Arc::new(Again::new(self.worker.clone(), "w"));
        let observer = self.worker.metrics.lane(resymbolicate::NAME);
        let config = self.config(resymbolicate::NAME, &self.names.resymbolicate);
        Lane::start(&self.settings, config, processor, observer).unwrap()
    }

    async fn input(&self, tenant: Option<&str>, value: impl Into<bytes::Bytes>) {
        let mut record = OutRecord::to(self.names.input.as_str(), value);
        record.headers = Headers::new().with(headers::TRACEPARENT, TRACE);
        if let Some(tenant) = tenant {
            record.headers.push(headers::TENANT, tenant.to_owned());
        }
        self.producer.send(&record).await.unwrap();
    }

    async fn read(&self, topic: &str) -> Vec<Record> {
        let facts = topic_facts(&self.settings, topic).await.unwrap();
        let from: Vec<(i32, i64)> = facts.partitions.iter().map(|p| (p.partition, p.start)).collect();
        let mut reader = PositionedConsumer::open(&self.settings, topic, &from).await.unwrap();
        let (mut records, mut ends) = (Vec::new(), BTreeSet::new());
        let limits = BatchLimits { records: 10_000, bytes: 64 << 20, wait: Duration::from_millis(300) };
        while ends.len() < from.len() {
            let batch = reader.next_batch(limits).await.unwrap();
            records.extend(batch.records);
            ends.extend(batch.ends);
        }
        records
    }

    /// The records of a topic once there are `count`.
    async fn wait(&self, topic: &str, count: usize) -> Vec<Record> {
        for _ in 0..100 {
            let records = self.read(topic).await;
            if records.len() >= count {
                return records;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{topic} has {} records and not {count}", self.read(topic).await.len());
    }

    /// Ends of single records in the ledger.
    async fn terminals(&self) -> Vec<(Outcome, u32)> {
        let ledger = self.read(&self.names.ledger).await;
        let entries = ledger.into_iter().map(|r| LedgerRecord::decode(r.value.unwrap()).unwrap());
        let terminal = entries.filter_map(|record| match record.entry {
            Some(Entry::Terminal(end)) => Some((end.outcome(), end.revision)),
            _ => None,
        });
        terminal.collect()
    }

    async fn publish(&self, app: &App, generation: u64) {
        let meta = AliasMeta {
            generation,
            quality: Quality::DwarfSymtab,
            sha256: ContentHash(Sha256::digest(&app.symcache).into()),
            object: ContentHash([9; 32]),
        };
        let key = keys::symbols(&acme().scope(app.id)).alias(VERSION);
        let put = Put { metadata: meta.to_metadata(), ..Put::default() };
        self.store.put(&key, app.symcache.clone().into(), &put).await.unwrap();
    }

    async fn end(self, mut lanes: Vec<Lane>) {
        for lane in &lanes {
            lane.stop(Duration::from_secs(10));
        }
        for lane in &mut lanes {
            lane.ended().await.unwrap();
        }
        admin::delete(&self.settings).await.unwrap();
    }
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn acme() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn json(record: &Record) -> serde_json::Value {
    serde_json::from_slice(record.value.as_ref().unwrap()).unwrap()
}

/// Frames with a function from the symbols.
fn symbolicated(record: &Record) -> u64 {
    json(record)["symbolication"]["frames"]["symbolicated"].as_u64().unwrap_or(0)
}

async fn paused(lane: &Lane) -> LaneStatus {
    let mut status = lane.status();
    let waited = tokio::time::timeout(Duration::from_secs(20), status.wait_for(|s| s.paused.is_some())).await;
    waited.unwrap().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_has_its_outcome() {
    let bench = Bench::new(None).await;
    let app = App::new();
    bench.publish(&app, 3).await;
    let (one, two) = (app.report(1, 2), app.report(2, 2));
    let mut array = b"[".to_vec();
    for (n, element) in
        [&one[..], b"\"as text\"", &two[..], b"17", b"{\"not\":\"cut\"}"].into_iter().enumerate()
    {
        if n > 0 {
            array.push(b',');
        }
        array.extend_from_slice(element);
    }
    array.push(b']');
    bench.input(Some("acme"), one.clone()).await;
    bench.input(Some("acme"), array).await;
    bench.input(Some("acme"), "[]").await;
    bench.input(Some("acme"), "{\"report\":").await;
    bench.input(Some("nobody"), two.clone()).await;
    bench.input(None, two.clone()).await;
    bench.input(Some("No Slug"), two.clone()).await;
    bench.input(Some("gone"), two.clone()).await;
    let lane = bench.live();

    let outputs = bench.wait(&bench.names.output, 4).await;
    assert_eq!(outputs.len(), 4);
    let mut places: Vec<_> = outputs.iter().map(|r| r.headers.text(headers::SOURCE_INDEX)).collect();
    places.sort_unstable();
    assert_eq!(places, [None, Some("0"), Some("2"), Some("4")]);
    for record in &outputs {
        let ours = &json(record)["symbolication"];
        assert_eq!((&ours["tenant"], &ours["revision"]), (&"acme".into(), &1.into()));
        let text = |name| record.headers.text(name).unwrap();
        assert_eq!(
            (text(headers::TENANT), text(headers::ORIGIN_TOPIC)),
            ("acme", bench.names.input.as_str())
        );
        assert!(text(headers::TRACEPARENT).starts_with(&TRACE[..36]) && text(headers::TRACEPARENT) != TRACE);
        let key = format!("acme/{}", text(headers::REPORT_ID));
        assert_eq!(record.key.as_deref(), Some(key.as_bytes()));
    }
    let whole = outputs.iter().find(|r| r.headers.text(headers::SOURCE_INDEX).is_none()).unwrap();
    assert!(symbolicated(whole) > 0);
    assert_eq!(json(whole)["symbolication"]["images"][0]["generation"], 3);

    let dead = bench.wait(&bench.names.dead_letter, 7).await;
    let mut reasons: Vec<(&str, &[u8])> = dead
        .iter()
        .map(|r| (r.headers.text(headers::REASON).unwrap(), r.value.as_deref().unwrap()))
        .collect();
    reasons.sort_unstable();
    let expected: [(&str, &[u8]); 7] = [
        ("no_tenant", &two),
        ("not_a_report", b"17"),
        ("not_a_report", b"[]"),
        ("not_a_report", b"as text"),
        ("truncated", b"{\"report\":"),
        ("unknown_tenant", &two),
        ("unknown_tenant", &two),
    ];
    assert_eq!(reasons, expected);
    assert_eq!(bench.terminals().await, [(Outcome::DroppedDeleted, 0)]);
    bench.end(vec![lane]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn symbols_that_come_late_make_a_revision_and_nothing_better_makes_none() {
    let bench = Bench::new(None).await;
    let app = App::new();
    let lanes = vec![bench.live(), bench.again()];
    bench.input(Some("acme"), app.report(1, 2)).await;
    let first = bench.wait(&bench.names.output, 1).await.remove(0);
    assert_eq!(json(&first)["symbolication"]["missing"][0], app.id.to_string());

    // Nobody has told this worker of the symbols but the request itself.
    bench.publish(&app, 1).await;
    let ask = async |revision: u32, stored: &Record| {
        let id = stored.headers.text(headers::REPORT_ID).unwrap().parse::<unslide_model::ReportId>().unwrap();
        let request = Resymbolicate {
            tenant: "acme".into(),
            report_id: id.0.to_vec().into(),
            revision,
            supersedes: revision - 1,
            needs: vec![Need { debug_id: app.id.0.to_vec().into(), generation: 1, system: false }],
            body: Some(Body::InlineLz4(body::compress(stored.value.as_ref().unwrap()).into())),
            traceparent: TRACE.into(),
            ..Resymbolicate::default()
        };
        let record = OutRecord::to(bench.names.resymbolicate.as_str(), request.encode_to_vec());
        bench.producer.send(&record).await.unwrap();
    };
    ask(2, &first).await;
    let both = bench.wait(&bench.names.output, 2).await;
    let second = both.iter().find(|r| r.headers.text(headers::REVISION) == Some("2")).unwrap();
    assert_eq!(second.headers.text(headers::SUPERSEDES), Some("1"));
    assert!(second.headers.text(headers::TRACEPARENT).unwrap().starts_with(&TRACE[..36]));
    let ours = &json(second)["symbolication"];
    assert_eq!((&ours["revision"], &ours["supersedes"]), (&2.into(), &1.into()));
    assert_eq!((symbolicated(&first), ours["missing"].as_array().map_or(0, Vec::len)), (0, 0));
    assert!(symbolicated(second) > 0);
    assert_eq!(second.key, first.key);

    ask(3, second).await;
    for _ in 0..50 {
        if !bench.terminals().await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(bench.terminals().await, [(Outcome::Unchanged, 3)]);
    assert_eq!(bench.read(&bench.names.output).await.len(), 2);
    bench.end(lanes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_fails_for_now_is_no_answer() {
    let bench = Bench::new(None).await;
    let app = App::new();
    bench.publish(&app, 1).await;
    for fault in [Fault::Transient, Fault::Refused] {
        bench.memory.fail(Operation::Get, "t/acme/", fault, None);
        let before = bench.read(&bench.names.output).await.len();
        assert_eq!(before, 0);
        let lane = bench.live();
        bench.input(Some("acme"), app.report(1, 2)).await;
        let status = paused(&lane).await;
        assert!(status.paused.unwrap().contains("fetched"), "the reason is told");
        assert!(bench.read(&bench.names.output).await.is_empty(), "nothing is published as missing");
        lane.stop(Duration::from_secs(5));
    }
    bench.memory.heal();
    let lane = bench.live();
    for record in bench.wait(&bench.names.output, 2).await {
        assert!(symbolicated(&record) > 0);
    }
    bench.end(vec![lane]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_is_cut_down_and_then_refused() {
    let app = App::new();
    let report = app.report(1, 300);
    let bench = Bench::new(Some(report.len() + 25_000)).await;
    bench.publish(&app, 1).await;
    let lane = bench.live();
    bench.input(Some("acme"), report.clone()).await;
    // The input alone leaves no room for anything.
    let larger = app.report(2, 1_500);
    bench.input(Some("acme"), larger.clone()).await;
    let output = bench.wait(&bench.names.output, 1).await.remove(0);
    assert_eq!(json(&output)["symbolication"]["truncated"], true);
    assert!(output.value.as_ref().unwrap().len() <= report.len() + 25_000);
    let dead = bench.wait(&bench.names.dead_letter, 1).await.remove(0);
    assert_eq!(dead.headers.text(headers::REASON), Some("too_large"));
    assert_eq!(dead.value.as_deref(), Some(&larger[..]));
    bench.end(vec![lane]).await;
}
