//! Which records are skipped, and when the reader stops instead.
//! Proves: replay

use super::skips::SkipLimit;
use super::*;
use crate::config::Settings;
use crate::records::{Content, ReadRecord};
use crate::segments::tests::stored_bodies::World;
use crate::topics::Topics;
use unslide_history::{History, HistorySettings};
use unslide_proto::headers;
use unslide_report::reader::ReportReaders;
use unslide_store::deferred;
use unslide_store::positions::{self, PartitionPosition};
use unslide_stream::{Headers, RecordRef};
use unslide_testkit::statements;

const TOPIC: &str = "crash.symbolicated";
/// The error of a statement that runs out of time, for rows where this is true.
fn slow(rows: &str) -> String {
    format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'slow' USING ERRCODE = 'query_canceled'; END $$;
         CREATE TRIGGER slow BEFORE INSERT ON reports FOR EACH ROW WHEN ({rows}) EXECUTE FUNCTION slow()"
    )
}
const MAKE_NOBODY: &str =
    "INSERT INTO tenants (slug, name, created_at, updated_at) VALUES ('nobody', 'Nobody', now(), now())";
const REFUSE_POISON: &str = "ALTER TABLE reports ADD CONSTRAINT no_poison CHECK (app <> 'poison')";

/// A report of an app, at an offset.
fn report(of: &str, offset: u8, app: &str) -> Record {
    let id = format!("{offset:02x}").repeat(16);
    let value = format!(
        r#"{{"report":{{"id":"{id}"}},"system":{{"CFBundleIdentifier":"{app}"}},"symbolication":{{"version":1,"engine":"unslide/0.1.0","revision":1,"status":"none"}}}}"#
    );
    Record {
        at: RecordRef { topic: TOPIC.into(), partition: 0, offset: offset.into() },
        time_millis: Some(1_795_161_600_000),
        key: None,
        value: Some(value.into()),
        headers: Headers::new().with(headers::TENANT, of.to_owned()),
    }
}

/// Reads as always, and panics on one app's reports.
fn panic_on_poison(record: &Record, reading: &Reading) -> Parsed {
    let value = record.value.clone().unwrap_or_default();
    assert!(!String::from_utf8_lossy(&value).contains("poison"), "poisoned");
    records::parse_record(record, reading)
}

struct Bench {
    world: World,
    registry: prometheus::Registry,
    pipeline: Pipeline,
    positions: Positions,
}

impl Bench {
    async fn new(read: ReadRecord) -> Bench {
        let world = World::new().await;
        let registry = prometheus::Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let label = ReaderLabel::new(TOPIC, 1);
        let settings = Settings { batch_wait_milliseconds: 1, ..world.settings.clone() };
        let pipeline = Pipeline::new(&Resources {
            topics: Topics { shared: TOPIC.into(), tenants: false },
            label: label.clone(),
            content: Content::Reports,
            signatures: Arc::new(unslide_stream::Signatures::new(
                &unslide_stream::SignatureSettings::default(),
            )),
            settings,
            kafka: unslide_stream::Settings::default(),
            store: world.store.clone(),
            host: world.host.clone(),
            skips: SkipLimit::new(world.store.clone(), metrics.clone(), &label),
            shares: Arc::new(crate::deferral::new_shares()),
            metrics,
            read,
            readers: ReportReaders::default(),
            rewriters: Arc::new(crate::rewriting::ReportRewriters::new([])),
        });
        let first =
            PartitionPosition { topic: TOPIC.into(), partition: 0, topic_id: "a".into(), next_offset: 0 };
        let first = positions::insert_first_position(&world.store, &first).await.unwrap();
        let positions = Positions::from([((TOPIC.into(), 0), first)]);
        Bench { world, registry, pipeline, positions }
    }

    async fn store(&mut self, records: Vec<Record>) -> Result<(), IndexerError> {
        Box::pin(self.pipeline.store_records(records, &mut self.positions, Effects::Now)).await
    }

    /// The next offset, the reports that are stored, and the records that could not be stored.
    async fn counts(&self) -> (i64, i64, i64) {
        let number = async |query| self.world.number(query).await;
        (
            number("SELECT next_offset FROM positions").await,
            number("SELECT count(*) FROM reports").await,
            number("SELECT count(*) FROM dead_letters WHERE stage = 'store'").await,
        )
    }

    async fn is_skipped(&self, reason: &str, offset: u8) -> bool {
        let query = format!(
            "SELECT count(*) FROM dead_letters WHERE stage = 'store' AND reason = '{reason}' AND topic = '{TOPIC}'
             AND topic_id = 'a' AND partition = 0 AND at_offset = {offset} AND tenant = 'acme'"
        );
        self.world.number(&query).await == 1
    }

    fn stopped(&self) -> bool {
        let families = self.registry.gather();
        let stopped = families.iter().find(|f| f.name() == "unslide_indexer_reader_stopped").unwrap();
        stopped.get_metric()[0].get_gauge().get_value() > 0.0
    }
}

fn is_stop(stored: &Result<(), IndexerError>) -> bool {
    matches!(stored, Err(IndexerError::NotSkipped { .. }))
}

fn batch(poison: &[u8], last: u8) -> Vec<Record> {
    let app = |offset| if poison.contains(&offset) { "poison" } else { "shop" };
    (0..=last).map(|offset| report("acme", offset, app(offset))).collect()
}

#[tokio::test]
async fn a_record_that_panics_becomes_a_dead_letter_and_the_others_are_stored() {
    let mut bench = Bench::new(panic_on_poison).await;
    bench.store(batch(&[17], 39)).await.unwrap();
    assert_eq!(bench.counts().await, (40, 39, 1));
    assert!(bench.is_skipped("panicked", 17).await);
    // Read again from the start it is the same record, whatever came meanwhile.
    bench.world.execute("UPDATE positions SET next_offset = 0").await;
    bench.positions.values_mut().for_each(|position| position.next_offset = 0);
    bench.store(batch(&[17], 39)).await.unwrap();
    assert_eq!(bench.counts().await, (40, 39, 1));
}

#[tokio::test]
async fn a_record_that_a_constraint_refuses_becomes_a_dead_letter_and_the_others_are_stored() {
    let mut bench = Bench::new(records::parse_record).await;
    bench.world.execute(REFUSE_POISON).await;
    bench.store(batch(&[0, 5], 10)).await.unwrap();
    assert_eq!(bench.counts().await, (11, 9, 2));
    assert!(bench.is_skipped("constraint_violation", 0).await);
    assert!(bench.is_skipped("constraint_violation", 5).await);
}

#[tokio::test]
async fn many_failures_in_ten_minutes_stop_the_reader_until_the_record_can_be_stored() {
    let mut bench = Bench::new(records::parse_record).await;
    bench.world.execute(REFUSE_POISON).await;
    let poison: Vec<u8> = (1..=21).collect();
    let records = batch(&poison, 30);
    assert!(is_stop(&bench.store(records.clone()).await));
    assert_eq!(bench.counts().await, (21, 1, 20));
    assert!(bench.stopped());
    // Time alone changes nothing: the cause has to.
    bench.world.wait(time::Duration::HOUR);
    assert!(is_stop(&bench.store(records[21..].to_vec()).await));
    assert_eq!(bench.counts().await, (21, 1, 20));
    bench.world.execute("ALTER TABLE reports DROP CONSTRAINT no_poison").await;
    bench.store(records[21..].to_vec()).await.unwrap();
    assert_eq!(bench.counts().await, (31, 11, 20));
    assert!(!bench.stopped());
}

#[tokio::test]
async fn one_reason_across_tenants_stops_the_reader_within_ten_minutes() {
    let mut bench = Bench::new(records::parse_record).await;
    bench.world.execute(REFUSE_POISON).await;
    bench.store(batch(&[1], 2)).await.unwrap();
    let records = [report("umbrella", 3, "poison"), report("umbrella", 4, "shop")].to_vec();
    assert!(is_stop(&bench.store(records).await));
    assert_eq!(bench.counts().await, (3, 2, 1));
    assert!(bench.stopped());
    let mut bench = Bench::new(records::parse_record).await;
    bench.world.execute(REFUSE_POISON).await;
    bench.store(batch(&[1], 2)).await.unwrap();
    bench.world.wait(time::Duration::minutes(11));
    let records = [report("umbrella", 3, "poison"), report("umbrella", 4, "shop")].to_vec();
    bench.store(records).await.unwrap();
    assert_eq!(bench.counts().await, (5, 3, 2));
}

#[tokio::test]
async fn where_no_record_succeeds_none_is_skipped() {
    let mut bench = Bench::new(panic_on_poison).await;
    assert!(is_stop(&bench.store(batch(&[0, 1, 2], 2)).await));
    bench.world.execute("ALTER TABLE reports ADD CONSTRAINT nothing CHECK (false) NOT VALID").await;
    assert!(is_stop(&bench.store(batch(&[], 9)).await));
    assert_eq!(bench.counts().await, (0, 0, 0));
    assert!(bench.stopped());
    // One that comes alone, with nothing to compare it with, is skipped.
    bench.store(batch(&[], 0)).await.unwrap();
    assert_eq!(bench.counts().await, (1, 0, 1));
}

/// Proves: outages
#[tokio::test]
async fn a_record_that_takes_the_database_too_long_becomes_a_dead_letter_and_batches_shrink_and_grow() {
    let mut bench = Bench::new(records::parse_record).await;
    bench.world.execute(&slow("NEW.app = 'poison'")).await;
    bench.store(batch(&[17], 39)).await.unwrap();
    assert_eq!(bench.counts().await, (40, 39, 1));
    assert!(bench.is_skipped("statement_timeout", 17).await);
    assert_eq!(bench.pipeline.most_records(), 1);
    bench.store(vec![report("acme", 40, "shop")]).await.unwrap();
    assert_eq!(bench.pipeline.most_records(), 2);
    bench.store(vec![report("acme", 41, "shop"), report("acme", 42, "shop")]).await.unwrap();
    assert_eq!(bench.pipeline.most_records(), 3);
}

#[tokio::test]
async fn where_all_records_take_the_database_too_long_none_is_skipped() {
    let mut bench = Bench::new(records::parse_record).await;
    bench.world.execute(&slow("true")).await;
    for last in [9, 0] {
        assert!(is_stop(&bench.store(batch(&[], last)).await), "{last}");
        assert_eq!(bench.counts().await, (0, 0, 0), "{last}");
        assert_eq!(bench.pipeline.most_records(), 1);
    }
    bench.world.execute("DROP TRIGGER slow ON reports").await;
    bench.store(batch(&[], 9)).await.unwrap();
    assert_eq!(bench.counts().await, (10, 10, 0));
}

#[tokio::test]
async fn a_batch_costs_the_same_statements_however_many_records_it_has() {
    let mut bench = Bench::new(records::parse_record).await;
    bench.store(vec![report("acme", 0, "shop")]).await.unwrap();
    let mut cost = async |first: u8, records: u8| {
        let reports = (first..first + records).map(|offset| report("acme", offset, "shop"));
        let unreadable = (first + records..first + 2 * records)
            .map(|offset| Record { value: Some("no report".into()), ..report("acme", offset, "shop") });
        let (stored, statements) =
            statements::counted(bench.store(reports.chain(unreadable).collect())).await;
        stored.unwrap();
        statements
    };
    let (few, many) = (cost(1, 2).await, cost(5, 40).await);
    assert!(few > 1, "statements are counted");
    assert_eq!(few, many);
    assert_eq!(bench.counts().await, (85, 43, 0));
    assert_eq!(bench.world.number("SELECT count(*) FROM dead_letters WHERE stage = 'read'").await, 42);
}

impl Bench {
    /// Lets the reader have had no time left lately.
    fn saturate(&self) {
        let shares = &self.pipeline.resources.shares;
        (0..10).for_each(|second| shares.record_busy(second * 1_000_000, (second + 1) * 1_000_000));
    }

    async fn ranges(&self) -> Vec<DeferredRange> {
        deferred::list_ranges(&self.world.store, &[TOPIC.to_owned()]).await.unwrap()
    }

    /// Stores what is deferred of these records, as another process.
    async fn store_deferred(
        &self,
        ranges: Vec<DeferredRange>,
        records: Vec<Record>,
    ) -> Result<(), IndexerError> {
        let mut pipeline = Pipeline::new(&self.pipeline.resources);
        let mut positions = self.positions.clone();
        Box::pin(pipeline.store_deferred(records, BTreeMap::new(), ranges, &mut positions, Effects::Now))
            .await
    }

    async fn reports(&self, tenant: &str) -> i64 {
        self.world.number(&format!("SELECT count(*) FROM reports WHERE tenant = '{tenant}'")).await
    }
}

/// Where a range begins and ends, and the number of its records.
fn figures(range: &DeferredRange) -> (i64, i64, i64) {
    (range.from, range.to, range.records)
}

/// Proves: fairness
#[tokio::test]
async fn a_tenant_over_its_share_is_deferred_and_its_neighbours_are_stored() {
    let mut bench = Bench::new(records::parse_record).await;
    bench.saturate();
    let mut records = batch(&[], 9);
    records.push(report("umbrella", 10, "shop"));
    records.push(report("acme", 11, "shop"));
    bench.store(records.clone()).await.unwrap();
    // The first one is stored: nothing was used before it.
    assert_eq!(
        (bench.counts().await.0, bench.reports("acme").await, bench.reports("umbrella").await),
        (12, 1, 1)
    );
    assert_eq!(bench.ranges().await.iter().map(figures).collect::<Vec<_>>(), [(1, 12, 10)]);
    // There is time again. What follows waits all the same: a later revision must not be stored first.
    bench.world.wait(time::Duration::MINUTE);
    bench.store(vec![report("acme", 12, "shop"), report("umbrella", 13, "shop")]).await.unwrap();
    assert_eq!((bench.reports("acme").await, bench.reports("umbrella").await), (1, 2));
    let ranges = bench.ranges().await;
    assert_eq!(ranges.iter().map(figures).collect::<Vec<_>>(), [(1, 13, 11)]);
    // A part is stored, and the rest, by whoever has the partition then.
    let of_acme: Vec<Record> =
        records.iter().filter(|r| r.at.offset > 0 && r.at.offset != 10).cloned().collect();
    bench.store_deferred(ranges.clone(), of_acme[..4].to_vec()).await.unwrap();
    assert_eq!(bench.reports("acme").await, 5);
    assert_eq!(bench.ranges().await.iter().map(figures).collect::<Vec<_>>(), [(5, 13, 7)]);
    // One that believes in the range as it was stores nothing.
    let fenced = bench.store_deferred(ranges, of_acme.clone()).await;
    assert!(matches!(fenced, Err(IndexerError::Store(StoreError::Fenced { .. }))), "{fenced:?}");
    assert_eq!(bench.reports("acme").await, 5);
    let rest = of_acme[4..].iter().cloned().chain([report("acme", 12, "shop")]).collect();
    bench.store_deferred(bench.ranges().await, rest).await.unwrap();
    assert_eq!((bench.reports("acme").await, bench.ranges().await), (12, Vec::new()));
    // Nothing waits any more: the next one is stored at once.
    bench.store(vec![report("acme", 14, "shop")]).await.unwrap();
    assert_eq!(bench.counts().await, (15, 15, 0));
}

/// Proves: replay
#[tokio::test]
async fn a_deferred_record_that_cannot_be_stored_becomes_a_dead_letter_and_the_others_are_stored() {
    let mut bench = Bench::new(panic_on_poison).await;
    bench.saturate();
    let records = batch(&[7], 19);
    bench.store(records.clone()).await.unwrap();
    assert_eq!(bench.counts().await, (20, 1, 0));
    bench.store_deferred(bench.ranges().await, records[1..].to_vec()).await.unwrap();
    assert_eq!(bench.counts().await, (20, 19, 1));
    assert!(bench.is_skipped("panicked", 7).await);
    assert_eq!(bench.ranges().await, []);
}

/// Proves: fairness
#[tokio::test]
async fn reports_of_a_tenant_that_does_not_exist_wait_until_it_is_made() {
    let mut bench = Bench::new(records::parse_record).await;
    let mut records: Vec<Record> = (0..5).map(|offset| report("nobody", offset, "shop")).collect();
    records.push(report("acme", 5, "shop"));
    bench.store(records.clone()).await.unwrap();
    assert_eq!(bench.counts().await, (6, 1, 0));
    let ranges = bench.ranges().await;
    assert_eq!((ranges.len(), ranges[0].from, ranges[0].to), (1, 0, 5));
    bench.world.execute(MAKE_NOBODY).await;
    // What comes now is stored behind what waits.
    bench.store(vec![report("nobody", 6, "shop")]).await.unwrap();
    assert_eq!((bench.reports("nobody").await, bench.ranges().await[0].to), (0, 7));
    records.push(report("nobody", 6, "shop"));
    records.retain(|record| record.at.offset != 5);
    bench.store_deferred(bench.ranges().await, records).await.unwrap();
    assert_eq!((bench.reports("nobody").await, bench.ranges().await), (6, Vec::new()));
}

/// Proves: replay
#[tokio::test]
async fn a_revision_of_a_report_in_clickhouse_waits_for_it_and_everything_else_is_stored() {
    let mut bench = Bench::new(records::parse_record).await;
    // No one listens there.
    let url = Some("http://127.0.0.1:9".into());
    let history = History::new(&HistorySettings { url, ..HistorySettings::default() }).unwrap();
    let away = bench.world.store.clone().with_history(Some(history));
    bench.pipeline = Pipeline::new(&Resources { store: away, ..bench.pipeline.resources.clone() });
    bench.store(batch(&[], 2)).await.unwrap();
    let moved = "01".repeat(16);
    let leave = format!(
        "UPDATE report_keys SET history_version = 1 WHERE report_id = '{moved}'; DELETE FROM reports WHERE report_id = '{moved}'"
    );
    bench.world.execute(&leave).await;
    let mut revision = report("acme", 1, "shop");
    revision.at.offset = 4;
    let value = String::from_utf8(revision.value.unwrap().to_vec()).unwrap();
    revision.value = Some(value.replace("\"revision\":1", "\"revision\":2").into());
    let records =
        vec![report("acme", 3, "shop"), revision, report("acme", 5, "shop"), report("umbrella", 6, "shop")];
    bench.store(records.clone()).await.unwrap();
    assert_eq!(bench.counts().await, (7, 4, 0));
    assert_eq!((bench.reports("acme").await, bench.reports("umbrella").await), (3, 1));
    assert_eq!(bench.ranges().await.iter().map(figures).collect::<Vec<_>>(), [(4, 6, 2)]);
    // A record that comes later waits behind them; another tenant's does not.
    bench.store(vec![report("acme", 7, "shop"), report("umbrella", 8, "shop")]).await.unwrap();
    assert_eq!((bench.reports("acme").await, bench.reports("umbrella").await), (3, 2));
    let waiting = vec![records[1].clone(), records[2].clone(), report("acme", 7, "shop")];
    let failed = bench.store_deferred(bench.ranges().await, waiting.clone()).await;
    let acme = [TenantId::new("acme").unwrap()].into();
    assert!(
        matches!(&failed, Err(IndexerError::HistoryAway { tenants, .. }) if *tenants == acme),
        "{failed:?}"
    );
    bench.world.execute("UPDATE report_keys SET history_version = NULL").await;
    bench.store_deferred(bench.ranges().await, waiting).await.unwrap();
    assert_eq!((bench.reports("acme").await, bench.ranges().await), (5, Vec::new()));
}
