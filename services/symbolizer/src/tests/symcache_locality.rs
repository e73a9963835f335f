//! Which worker loads which symcaches, and how often.

use super::worker_fixture::*;
use std::time::Duration;
use unslide_artifacts::Operation;
use unslide_model::{ReportId, Scoped, TenantId};
use unslide_proto::{headers, keys};
use unslide_report::{ReadLimits, Report};
use unslide_stream::OutRecord;
use unslide_stream::lane::Lane;

const APPS: u8 = 6;

async fn stop(mut lane: Lane) {
    lane.stop(Duration::from_secs(10));
    lane.wait_for_end().await.unwrap();
}

/// Sends one report of each app, and returns how many requests object storage got until all were answered.
async fn send_all(bench: &Bench, apps: &[App], round: usize) -> usize {
    let before = bench.memory.call_count(Operation::Get);
    for (number, app) in apps.iter().enumerate() {
        let report = app.report(u32::try_from(round * apps.len() + number).unwrap(), 2);
        bench.input(Some("acme"), report).await;
    }
    let outputs = bench.wait(&bench.names.output, (round + 1) * apps.len()).await;
    assert!(outputs.iter().all(|record| symbolicated(record) > 0));
    bench.memory.call_count(Operation::Get) - before
}

/// All symcaches are loaded before the first report, so no report waits or goes to a retry tier, and none is loaded
/// twice.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_worker_of_a_partition_loads_what_the_one_before_used_before_it_takes_a_record() {
    let wishes = || Wishes { input_partitions: 1, ..Wishes::default() };
    let first = Bench::with(wishes()).await;
    let apps: Vec<App> = (1..=APPS).map(App::numbered).collect();
    for app in &apps {
        first.publish(app, 1).await;
    }
    let lane = first.live();
    assert_eq!(send_all(&first, &apps, 0).await, apps.len());
    first.worker.warm_start.write_lists(&first.producer, false).await;
    assert_eq!(first.read(&first.names.used_symbols).await.len(), 1);
    stop(lane).await;

    let second = first.beside("second", wishes()).await;
    let before = first.memory.call_count(Operation::Get);
    let lane = second.live();
    second.input(Some("acme"), apps[0].report(100, 2)).await;
    second.wait(&second.names.output, apps.len() + 1).await;
    assert_eq!(
        first.memory.call_count(Operation::Get) - before,
        apps.len(),
        "all were loaded for one report"
    );
    let output = second.read(&second.names.output).await.len();
    let before = first.memory.call_count(Operation::Get);
    for (number, app) in apps.iter().enumerate() {
        second.input(Some("acme"), app.report(200 + u32::try_from(number).unwrap(), 2)).await;
    }
    second.wait(&second.names.output, output + apps.len()).await;
    assert_eq!(first.memory.call_count(Operation::Get), before, "the others cause no request");
    assert_eq!(second.reasons(&second.names.retry_1s).await, []);
    second.end(vec![lane]).await;
}

/// A list costs only time: reports fetch their symcaches themselves.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_or_missing_list_and_a_symcache_that_is_gone_lose_no_report() {
    let bench = Bench::with(Wishes { input_partitions: 2, ..Wishes::default() }).await;
    let apps: Vec<App> = (1..=APPS).map(App::numbered).collect();
    for app in &apps {
        bench.publish(app, 1).await;
    }
    let list = |partition, value: Vec<u8>| {
        let key = keys::for_partition(&bench.names.input, partition);
        OutRecord::for_topic(bench.names.used_symbols.as_str(), value).key(key)
    };
    // The second list is of a symcache that does not exist.
    let gone = [&[0x0a, 0x18, 0x0a, 0x04][..], b"acme", &[0x12, 0x10], &[77; 16]].concat();
    bench.producer.send_all(&[list(0, vec![0xff; 9]), list(1, gone)]).await.unwrap();
    let second = bench.beside("second", Wishes { input_partitions: 2, ..Wishes::default() }).await;
    let lane = second.live();
    assert_eq!(
        send_all(&second, &apps, 0).await,
        apps.len() + 1,
        "one for each app, and one for what is gone"
    );
    second.end(vec![lane]).await;
}

/// Two workers whose caches have room for 25 of 40 symcaches each. Returns the requests to object storage, once the
/// caches are full, for 400 reports with these keys.
async fn count_requests(key: impl Fn(&Scoped<ReportId>, usize) -> String) -> usize {
    const ROUNDS: usize = 12;
    let apps: Vec<App> = (1..=40).map(App::numbered).collect();
    let wishes = || Wishes {
        input_partitions: 8,
        cache_bytes: apps[0].symcache.len() as u64 * 51 / 2,
        ..Wishes::default()
    };
    let first = Bench::with(wishes()).await;
    let second = first.beside("second", wishes()).await;
    for app in &apps {
        first.publish(app, 1).await;
    }
    let lanes = vec![first.live(), second.live()];
    for lane in &lanes {
        until(lane, |status| status.partitions == 4).await;
    }
    let mut before = 0;
    for round in 0..ROUNDS {
        if round == 2 {
            before = first.memory.call_count(Operation::Get);
        }
        for (number, app) in apps.iter().enumerate() {
            let report = app.report(u32::try_from(round * apps.len() + number).unwrap(), 2);
            let id = Report::read(&report, &ReadLimits::default()).unwrap().id;
            let key = key(&TenantId::new("acme").unwrap().scope(id), number);
            let record = OutRecord::for_topic(first.names.input.as_str(), report).key(key);
            first.producer.send_record(&record.header(headers::TENANT, "acme")).await.unwrap();
        }
        first.wait(&first.names.output, (round + 1) * apps.len()).await;
    }
    let requests = first.memory.call_count(Operation::Get) - before;
    first.end(lanes).await;
    requests
}

/// The reason to key records by app: workers then share out the symcaches.
#[tokio::test(flavor = "multi_thread")]
async fn keys_by_app_cause_a_fifth_of_the_requests_that_keys_by_report_cause() {
    let by_report = count_requests(|report, _| keys::for_report(report)).await;
    let app = |number: usize| format!("com.example.app{number}");
    let by_app = count_requests(|report, number| keys::for_input(report, Some(&app(number)), 1)).await;
    println!("requests for 400 reports: {by_app} by app, {by_report} by report");
    assert!(by_report >= 50 && by_app * 5 <= by_report, "{by_app} and {by_report}");
}
