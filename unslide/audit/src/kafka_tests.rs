//! The audit against a real Kafka: inputs as gateways write them, outcomes as lanes write them, by
//! hand, so that each can be left out or written twice.

use super::{Audit, AuditError, SummaryRow, Window, run_audit};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::time::Duration;
use unslide_model::{Clock as _, SystemClock};
use unslide_proto::report::ledger_record::Entry;
use unslide_proto::report::{
    BatchAccount, LedgerRecord, Outcome, OutcomeCount, PartitionBatch, RecordRef as ProtoRef, TerminalOutcome,
};
use unslide_proto::topics::TopicNames;
use unslide_proto::{Message, headers, lanes};
use unslide_stream::scan::{self, Scanner};
use unslide_stream::{Headers, OutRecord, Settings, StreamError, admin};
use unslide_testkit::servers;

const KAFKA_CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the markers of transactions that were ended may take.
const TRANSACTION_MARKER_TIMEOUT: Duration = Duration::from_secs(30);

struct Bench {
    settings: Settings,
    names: TopicNames,
    gateway: BaseProducer,
    lane: BaseProducer,
}

/// A record's topic, partition and offset.
type Place<'t> = (&'t str, i32, i64);

fn client_config(settings: &Settings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &settings.bootstrap);
    config
}

impl Bench {
    async fn new() -> Bench {
        let mut settings = Settings::single_broker(servers::kafka());
        settings.topic_prefix = format!("{}.", servers::unique("audit"));
        admin::create_topics(&settings).await.unwrap();
        let gateway = client_config(&settings).create().unwrap();
        let mut config = client_config(&settings);
        config.set("transactional.id", format!("{}lane", settings.topic_prefix));
        config.set("transaction.timeout.ms", "60000");
        let lane: BaseProducer = config.create().unwrap();
        lane.init_transactions(KAFKA_CALL_TIMEOUT).unwrap();
        Bench { names: settings.topic_names(), settings, gateway, lane }
    }

    fn send(producer: &BaseProducer, partition: i32, record: &OutRecord) {
        let mut base: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&record.topic)
            .partition(partition)
            .payload(record.value.as_deref().unwrap_or_default())
            .headers(record.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header { key, value: Some(value.as_ref()) })
            }));
        if let Some(key) = record.key.as_deref() {
            base = base.key(key);
        }
        producer.send(base).map_err(|(e, _)| e).unwrap();
    }

    fn input(&self, partition: i32, tenants: &[&str]) {
        for tenant in tenants {
            let record = OutRecord::for_topic(self.names.input.as_str(), "{}")
                .header(headers::TENANT, (*tenant).to_owned());
            Bench::send(&self.gateway, partition, &record);
        }
        self.gateway.flush(KAFKA_CALL_TIMEOUT).unwrap();
    }

    fn outcome(topic: &str, source: Place<'_>, origin: Place<'_>, index: Option<(u32, u32)>) -> OutRecord {
        let mut all = Headers::new()
            .with(headers::TENANT, "acme")
            .with(headers::SOURCE_TOPIC, source.0.to_owned())
            .with(headers::SOURCE_PARTITION, source.1.to_string())
            .with(headers::SOURCE_OFFSET, source.2.to_string())
            .with(headers::ORIGIN_TOPIC, origin.0.to_owned())
            .with(headers::ORIGIN_PARTITION, origin.1.to_string())
            .with(headers::ORIGIN_OFFSET, origin.2.to_string());
        if let Some((index, count)) = index {
            all.push(headers::SOURCE_INDEX, index.to_string());
            all.push(headers::SOURCE_COUNT, count.to_string());
        }
        OutRecord { headers: all, ..OutRecord::for_topic(topic, "{}") }
    }

    fn ledger(&self, entry: Entry) -> OutRecord {
        let record = LedgerRecord { lane: "live".into(), entry: Some(entry), ..LedgerRecord::default() };
        OutRecord::for_topic(self.names.ledger.as_str(), record.encode_to_vec())
    }

    fn account(&self, place: Place<'_>, next: i64, outcomes: &[(Outcome, u64)]) -> OutRecord {
        let counted = |(outcome, count): &(Outcome, u64)| OutcomeCount {
            tenant: "acme".into(),
            outcome: (*outcome).into(),
            count: *count,
        };
        let batch = PartitionBatch {
            topic: place.0.to_owned(),
            partition: place.1,
            first_offset: place.2,
            next_offset: next,
            records: (next - place.2) as u64,
            outcomes: outcomes.iter().map(counted).collect(),
        };
        self.ledger(Entry::Batch(BatchAccount { partitions: vec![batch] }))
    }

    /// Writes records to partition 0 and does not end the transaction.
    fn begin(&self, records: &[OutRecord]) {
        self.lane.begin_transaction().unwrap();
        for record in records {
            Bench::send(&self.lane, 0, record);
        }
        self.lane.flush(KAFKA_CALL_TIMEOUT).unwrap();
    }

    /// A transaction as a lane makes it: outputs, and the offset that comes next.
    fn transact(&self, lane: &str, next: Place<'_>, records: &[OutRecord]) {
        self.begin(records);
        let mut config = client_config(&self.settings);
        config.set("group.id", lanes::consumer_group(&self.settings.topic_prefix, lane));
        let member: BaseConsumer = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(next.0, next.1, Offset::Offset(next.2)).unwrap();
        let metadata = member.group_metadata().unwrap();
        self.lane.send_offsets_to_transaction(&list, &metadata, KAFKA_CALL_TIMEOUT).unwrap();
        self.lane.commit_transaction(KAFKA_CALL_TIMEOUT).unwrap();
    }

    fn abort(&self) {
        self.lane.abort_transaction(KAFKA_CALL_TIMEOUT).unwrap();
    }

    async fn audit_at(&self, window: Window, now: i64) -> Result<Audit, AuditError> {
        run_audit(&self.settings, window, now, TRANSACTION_MARKER_TIMEOUT, |_| {}).await
    }

    async fn audit(&self) -> Audit {
        self.audit_at(Window::default(), now()).await.unwrap()
    }

    /// Deletes what lies before these offsets, as retention does.
    async fn delete_before(&self, places: &[Place<'_>]) {
        let client: AdminClient<DefaultClientContext> = client_config(&self.settings).create().unwrap();
        let mut list = TopicPartitionList::new();
        for (topic, partition, offset) in places {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset)).unwrap();
        }
        let deleted = client.delete_records(&list, &AdminOptions::new()).await.unwrap();
        for element in deleted.elements() {
            element.error().unwrap();
        }
    }
}

fn now() -> i64 {
    SystemClock.now_micros() / 1_000
}

/// In, out, dead-letter, other, waiting, unread, duplicates, lost.
fn numbers(row: &SummaryRow) -> [u64; 8] {
    [
        row.input,
        row.out,
        row.dead_letter,
        row.other_outcomes(),
        row.waiting,
        row.unread,
        row.duplicates,
        row.lost,
    ]
}

/// Inputs on two partitions, with every kind of outcome, and transactions that were aborted.
async fn history() -> Bench {
    let bench = Bench::new().await;
    let names = bench.names.clone();
    let (input, tier) = (names.input.as_str(), names.retry_10s.as_str());
    bench.input(0, &["acme"; 6]);
    bench.input(1, &["other", "No Slug"]);
    let at = |offset| (input, 0, offset);
    let out = |offset, index| Bench::outcome(&names.output, at(offset), at(offset), index);
    let first = [
        out(0, None),
        out(1, Some((0, 2))),
        Bench::outcome(&names.dead_letter, at(1), at(1), Some((1, 2))),
        Bench::outcome(tier, at(2), at(2), None),
        Bench::outcome(&names.overflow, at(3), at(3), None),
        bench.account(
            at(0),
            4,
            &[
                (Outcome::Symbolicated, 2),
                (Outcome::DeadLetter, 1),
                (Outcome::Retry, 1),
                (Outcome::Overflow, 1),
            ],
        ),
    ];
    // What was aborted is in the logs and is no outcome.
    bench.begin(&first);
    bench.abort();
    bench.transact(lanes::LIVE, at(4), &first);
    let end = TerminalOutcome {
        outcome: Outcome::DroppedDeleted.into(),
        source: Some(ProtoRef { topic: input.to_owned(), partition: 0, offset: 4 }),
        ..TerminalOutcome::default()
    };
    let second =
        [bench.ledger(Entry::Terminal(end)), bench.account(at(4), 5, &[(Outcome::DroppedDeleted, 1)])];
    bench.transact(lanes::LIVE, at(5), &second);
    // The aborted copy has offset 0, its marker 1, the copy 2.
    let copy = (tier, 0, 2);
    let third = [
        Bench::outcome(&names.output, copy, at(2), None),
        bench.account(copy, 3, &[(Outcome::Symbolicated, 1)]),
    ];
    bench.transact(lanes::RETRY, (tier, 0, 3), &third);
    bench
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn committed_outcomes_count_and_aborted_ones_do_not() {
    let bench = history().await;
    let audit = bench.audit().await;
    assert!(audit.summary.is_clean(), "{:?}", audit.summary);
    assert_eq!(audit.window, Window::default());
    let told: Vec<_> =
        audit.summary.rows.iter().map(|r| (r.partition, r.tenant.as_str(), r.records, numbers(r))).collect();
    let expected = [
        (0, "acme", 6, [7, 3, 1, 1, 1, 1, 0, 0]),
        (1, "", 1, [1, 0, 0, 0, 0, 1, 0, 0]),
        (1, "other", 1, [1, 0, 0, 0, 0, 1, 0, 0]),
    ];
    assert_eq!(told, expected);
    assert_eq!(audit.summary.notes, Vec::<String>::new());
    // From the last input on, and up to there.
    let moment = Window { from: Some(now() + 60_000), to: None };
    assert!(bench.audit_at(moment, now()).await.unwrap().summary.rows.is_empty());
    let before = Window { from: None, to: Some(now() + 60_000) };
    assert_eq!(bench.audit_at(before, now()).await.unwrap().summary.total().input, 9);
    admin::delete_topics(&bench.settings).await.unwrap();
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_and_a_doubled_record_are_found_and_an_open_transaction_is_waited_for() {
    let bench = history().await;
    let (input, output) = (bench.names.input.clone(), bench.names.output.clone());
    // Every transaction of the past has its marker.
    assert!(bench.audit().await.summary.is_clean());
    // A zombie that could write what was written already.
    let again = Bench::outcome(&output, (&input, 0, 0), (&input, 0, 0), None);
    bench.begin(std::slice::from_ref(&again));
    match run_audit(&bench.settings, Window::default(), now(), Duration::from_secs(3), |_| {}).await {
        Err(AuditError::Stream(StreamError::Unstable { topic, partition: 0, .. })) => {
            assert_eq!(topic, output);
        }
        other => panic!("{other:?}"),
    }
    bench.abort();
    assert!(bench.audit().await.summary.is_clean());
    bench.begin(&[again]);
    bench.lane.commit_transaction(KAFKA_CALL_TIMEOUT).unwrap();
    let audit = bench.audit().await;
    assert_eq!(audit.summary.total().duplicates, 1);
    assert_eq!((audit.summary.findings[0].what, audit.summary.findings[0].offset), ("doubled", 0));
    // An offset that is committed without an outcome.
    bench.transact(lanes::LIVE, (&input, 0, 6), &[]);
    let audit = bench.audit().await;
    assert_eq!((audit.summary.total().lost, audit.summary.total().unread), (1, 2));
    assert!(audit.summary.findings.iter().any(|found| found.what == "lost" && found.offset == 5));
    assert!(audit.summary.contradictions[0].contains("1 records from 5 to 5 were taken by no transaction"));
    admin::delete_topics(&bench.settings).await.unwrap();
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn what_retention_deleted_is_told_apart_from_what_was_lost() {
    let bench = history().await;
    let names = bench.names.clone();
    // Outcomes that are gone: inputs so old are not audited unless it is asked for.
    bench.delete_before(&[(&names.output, 0, 6)]).await;
    let week = 7 * 86_400_000;
    let late = now() + week + 3_600_000;
    let audit = bench.audit_at(Window::default(), late).await.unwrap();
    assert!(audit.summary.is_clean() && audit.summary.rows.is_empty(), "{:?}", audit.summary);
    assert!(audit.because.unwrap().contains(&names.output));
    assert_eq!(audit.window.from, Some(late - week + 300_000));
    let asked = Window { from: Some(1), to: None };
    assert_eq!(bench.audit_at(asked, late).await.unwrap().summary.total().lost, 2);
    // Inputs that nobody will read.
    bench.delete_before(&[(&names.input, 0, 6)]).await;
    let audit = bench.audit_at(Window::default(), late).await.unwrap();
    assert_eq!((audit.summary.total().expired, audit.summary.is_clean()), (1, false));
    admin::delete_topics(&bench.settings).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_topics_of_single_tenants_are_audited() {
    let mut bench = Bench::new().await;
    bench.settings.tenant_topics = true;
    let acme = unslide_model::TenantId::new("acme").unwrap();
    let (input, output) = (bench.names.tenant_input(&acme), bench.names.tenant_output(&acme));
    let client: AdminClient<DefaultClientContext> = client_config(&bench.settings).create().unwrap();
    let new = [&input, &output].map(|name| NewTopic::new(name, 2, TopicReplication::Fixed(1)));
    for made in client.create_topics(&new, &AdminOptions::new()).await.unwrap() {
        made.unwrap();
    }
    let write = |topic: &str| {
        Bench::send(&bench.gateway, 0, &OutRecord::for_topic(topic, "{}").header(headers::TENANT, "other"));
        bench.gateway.flush(KAFKA_CALL_TIMEOUT).unwrap();
    };
    write(&input);
    write(&input);
    let done = Bench::outcome(&output, (&input, 0, 0), (&input, 0, 0), None);
    let account = bench.account((&input, 0, 0), 1, &[(Outcome::Symbolicated, 1)]);
    bench.transact(lanes::LIVE, (&input, 0, 1), &[done, account]);
    let audit = bench.audit().await;
    assert!(audit.summary.is_clean(), "{:?}", audit.summary);
    let told: Vec<_> = audit.summary.rows.iter().map(|r| (&r.topic, r.tenant.as_str(), numbers(r))).collect();
    assert_eq!(told, [(&input, "acme", [2, 1, 0, 0, 0, 1, 0, 0])]);
    client.delete_topics(&[&input, &output], &AdminOptions::new()).await.unwrap();
    admin::delete_topics(&bench.settings).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_record_is_read_by_its_place_and_only_if_it_is_committed() {
    let bench = history().await;
    let tier = bench.names.retry_10s.as_str();
    let at = async |offset| scan::read_record_at(&bench.settings, tier, 0, offset).await.unwrap();
    let found = at(2).await.unwrap();
    assert_eq!((found.at.offset, found.headers.get_number(headers::SOURCE_OFFSET)), (2, Some(2)));
    for nothing in [0, 1, 3, 9, -1] {
        assert!(at(nothing).await.is_none(), "{nothing}");
    }
    // One reader can look twice.
    let settings = bench.settings.clone();
    let topic = tier.to_owned();
    let twice = tokio::task::spawn_blocking(move || {
        let scanner = Scanner::open(&settings).unwrap();
        (0..2).filter(|_| scanner.read_record(&topic, 0, 2).unwrap().is_some()).count()
    });
    assert_eq!(twice.await.unwrap(), 2);
    admin::delete_topics(&bench.settings).await.unwrap();
}
