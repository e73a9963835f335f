//! Records that do not go the straight way: over a tenant's rate, through an outage, to a worker that
//! leaves. All come out, once.
//! Proves: one-outcome

use std::collections::BTreeSet;
use std::time::Duration;
use tempfile::TempDir;
use unslide_embedded::S3Endpoint;
use unslide_proto::Message;
use unslide_proto::report::LedgerRecord;
use unslide_proto::report::ledger_record::Entry;
use unslide_testkit::servers;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::{App, FUNCTIONS, list_functions};
use unslide_tests::deadly;
use unslide_tests::installation::{BUCKET, Installation, Place, TENANT};
use unslide_tests::proxy::{Proxy, Weather};
use unslide_tests::topics::{Record, Topics};

const LIMITED: (&str, &str) = ("UNSLIDE_TENANTS__UNITS_PER_SECOND", "4");

/// Starts the services other than workers, and makes the tenant.
async fn begin(installation: &mut Installation) {
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
}

async fn send(installation: &Installation, app: &App, tenant: &str, numbers: std::ops::Range<u32>) {
    let input = installation.topic_name("crash.reports");
    for number in numbers {
        let partition = i32::try_from(number % 4).expect("small");
        let report = app.build_report(number).bytes();
        installation.topics.produce_record(&input, Some(partition), &[("tenant", tenant)], &report).await;
    }
}

/// An installation that reaches object storage through a proxy; and its object storage.
async fn behind_proxy() -> (Installation, Proxy, (S3Endpoint, TempDir)) {
    let folder = tempfile::tempdir().expect("a folder");
    let s3 = S3Endpoint::start(folder.path(), BUCKET).expect("an S3 endpoint");
    let proxy = Proxy::start().await;
    proxy.forward_to(s3.url().trim_start_matches("http://").parse().expect("an address"));
    let keys = &s3;
    let place = Place {
        kafka: servers::kafka(),
        postgres: servers::postgres(),
        objects: format!("http://{}", proxy.address()),
        object_keys: (keys.access_key.clone(), keys.secret_key.clone()),
        kafka_admin: None,
    };
    let own = tempfile::tempdir().expect("a folder");
    let installation = Installation::prepare_on(&place, own, &[]).await;
    (installation, proxy, (s3, folder))
}

/// Each origin once.
fn assert_once(records: &[Record], count: usize) {
    let origins: BTreeSet<_> =
        records.iter().map(|r| (r.header_text("origin-partition"), r.header_text("origin-offset"))).collect();
    assert_eq!((origins.len(), records.len()), (count, count));
}

/// The service's own audit finds nothing lost and nothing doubled.
fn assert_clean(installation: &Installation) {
    let audit = tokio::task::block_in_place(|| installation.command_succeeds(&["audit", "--json"]));
    let audit: serde_json::Value = serde_json::from_str(&audit).expect("JSON");
    assert_eq!(audit["clean"], true, "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_sends_over_its_rate_waits_in_overflow_and_all_of_it_comes_out() {
    let app = App::from_fixture("app");
    let mut installation = Installation::prepare().await;
    begin(&mut installation).await;
    installation.client().upload_symbols(app.dsym.clone()).await;
    // Half a minute of its rate: no machine is too slow to be over it.
    let reports = 120;
    send(&installation, &app, TENANT, 0..reports).await;
    installation.start_service("symbolizer", "symbolizer", &[LIMITED]);
    installation.wait_ready("symbolizer").await;
    let output = installation.topic_name("crash.symbolicated");
    let all = reports as usize;
    let out = installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= all).await;
    assert_once(&out, all);
    let overflow = installation.topic_name("unslide.overflow");
    let diverted = tokio::task::block_in_place(|| installation.topics.read_all(&overflow));
    let over = diverted.iter().filter(|record| record.header_text("reason") == "over_share").count();
    assert!(over > 0, "{over} of {all} were diverted");
    let partitions: BTreeSet<i32> = diverted.iter().map(|record| record.partition).collect();
    assert!(partitions.len() <= 2, "one tenant uses {partitions:?}");
    for record in out.iter().filter(|record| record.header_text("source-topic") == overflow) {
        assert!(record.header_text("origin-topic").ends_with("crash.reports"), "the history goes on");
        assert_eq!(record.header_text("tenant"), TENANT);
    }
    assert_clean(&installation);
    installation.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_an_outage_of_object_storage_come_out_with_their_symbols_when_it_is_over() {
    let app = App::from_fixture("app");
    let (mut installation, proxy, _objects) = behind_proxy().await;
    begin(&mut installation).await;
    installation.client().upload_symbols(app.dsym.clone()).await;
    installation.start_service("symbolizer", "symbolizer", &[]);
    installation.wait_ready("symbolizer").await;

    proxy.set_weather(Weather::Errors);
    send(&installation, &app, TENANT, 0..5).await;
    // The store is at fault, so that reports wait and lose no try.
    let open = async {
        while installation.fetch_metric("symbolizer", "unslide_symbolizer_breaker_open").await != Some(1.0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(EVENTUAL_TIMEOUT, open).await.expect("the symbolizer hears of the outage");
    proxy.set_weather(Weather::Fair);
    let output = installation.topic_name("crash.symbolicated");
    let out = installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= 5).await;
    assert_once(&out, 5);
    for record in &out {
        assert_eq!(list_functions(&record.parse_json()), FUNCTIONS.map(<[_]>::to_vec));
    }
    for tier in ["1s", "10s", "1m", "10m"] {
        let tier = installation.topic_name(&format!("unslide.retry.{tier}"));
        let waited = tokio::task::block_in_place(|| installation.topics.read_all(&tier));
        let failed = waited.iter().filter(|record| record.header_text("reason") == "fetch_failed");
        let attempts: BTreeSet<&str> = failed.map(|record| record.header_text("attempt")).collect();
        assert!(attempts.is_subset(&BTreeSet::from(["0"])), "{attempts:?}");
    }
    assert_clean(&installation);
    installation.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_kills_its_worker_each_time_is_given_up_and_no_other_is() {
    let app = App::from_fixture("app");
    let (mut installation, proxy, _objects) = behind_proxy().await;
    let mut caught = deadly::trap_symbols(&proxy);
    begin(&mut installation).await;
    installation.client().upload_symbols(app.dsym.clone()).await;
    installation.make_tenant("umbrella");
    tokio::task::block_in_place(|| {
        installation.command_succeeds(&["tenant", "limits", "umbrella", "--units-per-second", "10"])
    });
    // Some are before it in its partition, some behind it, others in other partitions, and what is over
    // another tenant's rate is on another lane of the same worker.
    let (reports, others) = (120, 100);
    send(&installation, &app, TENANT, 0..60).await;
    send(&installation, &app, "umbrella", 0..others).await;
    let input = installation.topic_name("crash.reports");
    let deadly = deadly::deadly_report(&app, 1_000).bytes();
    installation.topics.produce_record(&input, Some(1), &[("tenant", TENANT)], &deadly).await;
    send(&installation, &app, TENANT, 60..reports).await;
    // It waits long enough to be killed on time.
    let patient = [("UNSLIDE_SYMBOLIZER__FETCH_WAIT", "5s")];
    installation.start_service("symbolizer", "symbolizer", &patient);
    let letters = installation.topic_name("unslide.dead-letter");
    let reader = Topics::connect(&servers::kafka());
    let mut given_up = tokio::spawn(async move {
        reader.wait_for(&letters, 2 * EVENTUAL_TIMEOUT, |letters| !letters.is_empty()).await
    });
    let mut deaths = 0;
    let given_up = loop {
        tokio::select! {
            ended = &mut given_up => break ended.expect("a letter"),
            from = caught.recv() => {
                let from = from.expect("the proxy runs");
                if installation.connected_from(from).is_some() {
                    tokio::task::block_in_place(|| installation.take_process("symbolizer").kill());
                    deaths += 1;
                    installation.start_service("symbolizer", "symbolizer", &patient);
                }
            }
        }
    };
    let output = installation.topic_name("crash.symbolicated");
    let all = (reports + others) as usize;
    let out = installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= all).await;
    assert_once(&out, all);
    let told: Vec<_> = given_up.iter().map(|letter| (letter.header_text("reason"), &letter.value)).collect();
    assert_eq!(told, [("kills_worker", &deadly)]);
    assert!(deaths >= 5, "{deaths} workers died");
    assert_clean(&installation);
    installation.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_end_under_load_hands_its_partitions_over() {
    let app = App::from_fixture("app");
    let mut installation = Installation::prepare().await;
    begin(&mut installation).await;
    let workers = ["symbolizer-0", "symbolizer-1"];
    for worker in workers {
        installation.start_service(worker, "symbolizer", &[]);
    }
    for worker in workers {
        installation.wait_ready(worker).await;
        installation.wait_metric(worker, "unslide_symbolizer_partitions{lane=\"live\"", 2.0).await;
    }
    send(&installation, &app, TENANT, 0..200).await;
    let leaving = installation.take_process("symbolizer-0");
    let ending = tokio::task::spawn_blocking(move || leaving.terminate());
    send(&installation, &app, TENANT, 200..400).await;
    let status = ending.await.expect("waits");
    assert!(status.success(), "{status}:\n{}", installation.read_log("symbolizer-0"));
    installation.wait_metric("symbolizer-1", "unslide_symbolizer_partitions{lane=\"live\"", 4.0).await;
    let output = installation.topic_name("crash.symbolicated");
    let out = installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= 400).await;
    assert_once(&out, 400);
    assert_clean(&installation);
    installation.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_topics_of_its_own_needs_no_header_and_reads_its_own_answers() {
    let app = App::from_fixture("app");
    let mut installation = Installation::prepare_with(&[("UNSLIDE_KAFKA__TENANT_TOPICS", "true")]).await;
    begin(&mut installation).await;
    tokio::task::block_in_place(|| installation.command_succeeds(&["tenant", "topics", TENANT]));
    for service in ["indexer", "symbolizer"] {
        installation.start_service(service, service, &[]);
        installation.wait_ready(service).await;
    }
    let input = installation.topic_name(&format!("crash.reports.{TENANT}"));
    installation.topics.produce_record(&input, None, &[], &app.build_report(1).bytes()).await;
    let output = installation.topic_name(&format!("crash.symbolicated.{TENANT}"));
    let out = installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| !records.is_empty()).await;
    assert_eq!((out[0].header_text("tenant"), out[0].header_text("origin-topic")), (TENANT, input.as_str()));
    let path = "/v1/reports/00000000-0000-4000-8000-000000000001";
    installation.client().wait_for(path, EVENTUAL_TIMEOUT, |status, _| status == 200).await;
    assert_clean(&installation);
    installation.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_tenant_leaves_nothing_and_what_it_still_sends_is_dropped_and_counted() {
    let app = App::from_fixture("app");
    let installation = Installation::start().await;
    let client = installation.client();
    client.upload_symbols(app.dsym.clone()).await;
    send(&installation, &app, TENANT, 0..5).await;
    let path = "/v1/reports/00000000-0000-4000-8000-000000000004";
    client.wait_for(path, EVENTUAL_TIMEOUT, |status, _| status == 200).await;
    tokio::task::block_in_place(|| {
        installation.command_succeeds(&["tenant", "delete", TENANT, "--yes", "--wait", "--at-most", "120"])
    });
    // Its keys are gone with it. The api remembers one for a moment.
    client.wait_for(path, EVENTUAL_TIMEOUT, |status, _| status == 401).await;
    send(&installation, &app, TENANT, 5..8).await;
    let ledger = installation.topic_name("unslide.ledger");
    let dropped = |records: &[Record]| {
        let ends = records.iter().filter_map(|record| LedgerRecord::decode(record.value.as_slice()).ok());
        let ends =
            ends.filter(|record| matches!(&record.entry, Some(Entry::Terminal(end)) if end.tenant == TENANT));
        ends.count()
    };
    installation.topics.wait_for(&ledger, EVENTUAL_TIMEOUT, |records| dropped(records) == 3).await;
    assert_clean(&installation);
    installation.stop().await;
}
