//! What a tenant may use.

use super::worker_fixture::*;
use crate::admission::tenant_rates::TenantRates;
use crate::config::Settings;
use crate::lanes::{live, retry};
use crate::run::build_processors;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::{Fault, Operation};
use unslide_audit::{Window, run_audit};
use unslide_model::{Clock, SystemClock, TenantId};
use unslide_proto::headers;
use unslide_proto::symbol::{TenantLimits, TenantState};
use unslide_runtime::CpuPool;
use unslide_stream::{Headers, OutRecord, Record};

fn of<'r>(records: &'r [Record], tenant: &str) -> Vec<&'r Record> {
    records.iter().filter(|r| r.headers.get_text(headers::TENANT) == Some(tenant)).collect()
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_over_its_rate_waits_in_overflow_and_a_quiet_one_behind_it_does_not() {
    let limits = TenantLimits { units_per_second: 10, ..TenantLimits::default() };
    let bench = Bench::with(Wishes { limits, input_partitions: 1, ..Wishes::default() }).await;
    let app = App::new();
    bench.clock.stand();
    for n in 0..100 {
        bench.input(Some("acme"), app.report(n, 2)).await;
    }
    bench.input(Some("other"), app.report(200, 2)).await;
    let mut lanes = vec![bench.live()];
    let over = bench.wait(&bench.names.overflow, 80).await;
    let outputs = bench.wait(&bench.names.output, 21).await;
    // The burst of two seconds, and no time goes by.
    assert_eq!((of(&outputs, "acme").len(), of(&outputs, "other").len(), over.len()), (20, 1, 80));
    for record in &over {
        assert_eq!(record.headers.get_text(headers::REASON), Some("over_share"));
        let key = record.key.as_deref().unwrap();
        assert!([&b"acme/0"[..], b"acme/1"].contains(&key), "{key:?}");
        assert_eq!(record.headers.get_text(headers::ORIGIN_TOPIC), Some(&*bench.names.input));
    }
    let same = |a: &Record, b: &Record| a.value == b.value;
    assert!(!over.iter().enumerate().any(|(n, a)| over[n + 1..].iter().any(|b| same(a, b))), "each once");

    // There they go on at the tenant's rate: another burst, half for each half of the records.
    lanes.push(bench.retry());
    bench.retries.wait_until_held(2).await;
    let outputs = bench.wait(&bench.names.output, 41).await;
    assert_eq!((of(&outputs, "acme").len(), outputs.len()), (40, 41));
    assert_eq!(bench.wait_while_time_passes(&bench.names.output, 101).await.len(), 101);
    assert!(bench.read(&bench.names.dead_letter).await.is_empty());
    bench.end(lanes).await;
}

/// A record of one app in its partition.
async fn send_keyed(bench: &Bench, app: &App, number: u32) {
    let record = OutRecord::for_topic(bench.names.input.as_str(), app.report(number, 2));
    let record = record.key("acme/com.example.shop/0").header(headers::TENANT, "acme");
    bench.producer.send_record(&record).await.unwrap();
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_one_app_has_its_whole_rate_at_the_worker_of_its_partition() {
    let limits = TenantLimits { units_per_second: 10, ..TenantLimits::default() };
    let wishes = || Wishes { limits, input_partitions: 4, ..Wishes::default() };
    let first = Bench::with(wishes()).await;
    let workers = [&first, &first.beside("second", wishes()).await];
    workers.iter().for_each(|worker| worker.clock.stand());
    let lanes: Vec<_> = workers.iter().map(|worker| worker.live()).collect();
    for lane in &lanes {
        until(lane, |status| status.partitions == 2).await;
    }
    let app = App::new();
    send_keyed(&first, &app, 0).await;
    first.wait(&first.names.output, 1).await;
    for worker in workers {
        worker.worker.warm_start.write_lists(&first.producer, false).await;
    }
    let acme = TenantId::new("acme").unwrap();
    let part = |worker: &&Bench| {
        let now = worker.clock.monotonic_micros();
        worker.worker.warm_start.tenant_partitions.part_of_tenant(&acme, &first.names.input, now)
    };
    while workers.iter().find_map(part) != Some(1.0) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The burst of two seconds at the whole rate: half of it would be ten.
    workers.iter().for_each(|worker| worker.clock.ahead(2));
    for number in 1..=30 {
        send_keyed(&first, &app, number).await;
    }
    assert_eq!(first.wait(&first.names.overflow, 10).await.len(), 10);
    assert_eq!(first.wait(&first.names.output, 21).await.len(), 21);
    first.end(lanes).await;
}

/// A report of `kib` KiB, most of them spaces behind it.
fn padded(app: &App, number: u32, kib: usize) -> Vec<u8> {
    let mut report = app.report(number, 2);
    report.resize(kib << 10, b' ');
    report
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_report_costs_its_bytes_on_the_input_and_in_overflow() {
    let limits = TenantLimits { units_per_second: 10, ..TenantLimits::default() };
    let bench =
        Bench::with(Wishes { limits, input_partitions: 1, overflow_partitions: 1, ..Wishes::default() });
    let bench = bench.await;
    let app = App::new();
    bench.clock.stand();
    // A burst of twenty units, of which the second large report would take seventeen.
    bench.input(Some("acme"), padded(&app, 1, 1 << 10)).await;
    bench.input(Some("acme"), padded(&app, 2, 1 << 10)).await;
    for n in 3..10 {
        bench.input(Some("acme"), app.report(n, 2)).await;
    }
    bench.input(Some("other"), padded(&app, 10, 1 << 10)).await;
    let mut lanes = vec![bench.live()];
    let outputs = bench.wait(&bench.names.output, 5).await;
    let over = bench.wait(&bench.names.overflow, 5).await;
    // One of seventeen units and three of one; the other tenant has its own.
    assert_eq!((of(&outputs, "acme").len(), of(&outputs, "other").len(), over.len()), (4, 1, 5));
    // There it costs as much: more than the ten units of a burst that half the rate has.
    lanes.push(bench.retry());
    bench.retries.wait_until_held(1).await;
    let outputs = bench.wait(&bench.names.output, 6).await;
    let large = outputs.iter().filter(|r| r.value.as_ref().unwrap().len() > 1 << 20).count();
    assert!((6..=9).contains(&outputs.len()) && large == 3, "{} of them {large} large", outputs.len());
    assert_eq!(bench.wait_while_time_passes(&bench.names.output, 10).await.len(), 10);
    bench.end(lanes).await;
}

/// Nothing waits for an hour, and nothing is let through that would have had to wait.
/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_the_wall_clock_stalls_no_rate_and_no_tier() {
    for step in [-3_600, 3_600] {
        let limits = TenantLimits { units_per_second: 10, ..TenantLimits::default() };
        let bench = Bench::with(Wishes { limits, input_partitions: 1, ..Wishes::default() }).await;
        let app = App::new();
        bench.publish(&app, 1).await;
        bench.memory.fail(Operation::Get, "t/other/", Fault::Transient, None);
        bench.clock.stand();
        for n in 0..30 {
            bench.input(Some("acme"), app.report(n, 2)).await;
        }
        bench.input(Some("other"), app.report(30, 2)).await;
        let mut lanes = vec![bench.live()];
        assert_eq!(bench.wait(&bench.names.overflow, 10).await.len(), 10);
        bench.wait(&bench.names.retry_10s, 1).await;
        bench.clock.step(step);
        bench.memory.heal();
        bench.input(Some("acme"), app.report(31, 2)).await;
        assert_eq!(bench.wait(&bench.names.overflow, 11).await.len(), 11, "no time has passed");
        bench.clock.ahead(1);
        bench.input(Some("acme"), app.report(32, 2)).await;
        wait_of(&bench, "acme", 21).await;
        lanes.push(bench.retry());
        let outputs = bench.wait_while_time_passes(&bench.names.output, 33).await;
        assert_eq!(of(&outputs, "other").len(), 1, "{step}");
        bench.end(lanes).await;
    }
}

/// All outputs, once there are `count` of a tenant.
async fn wait_of(bench: &Bench, tenant: &str, count: usize) -> Vec<Record> {
    for _ in 0..1_500 {
        let outputs = bench.read(&bench.names.output).await;
        if of(&outputs, tenant).len() >= count {
            return outputs;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{tenant} has no {count} outputs");
}

/// Tells of what a tenant may use, and waits until the worker knows.
async fn limit(bench: &Bench, tenant: &str, units_per_second: u32) {
    let limits = TenantLimits { units_per_second, ..TenantLimits::default() };
    tell(&bench.producer, &bench.names, tenant, TenantState::Active, limits).await;
    let tenant = TenantId::new(tenant).unwrap();
    for _ in 0..3_000 {
        if bench.worker.senders.tenants.limits(&tenant).units_per_second == units_per_second {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the worker does not learn the limit of {tenant}");
}

/// 60 reports of one tenant over its rate and 3 of another, and a rate of neither: each has one outcome
/// in the end, and the audit finds all of them.
#[tokio::test(flavor = "multi_thread")]
async fn what_waited_in_overflow_comes_out_once_and_the_audit_sees_that() {
    let wishes = Wishes { input_partitions: 1, overflow_partitions: 1, ..Wishes::default() };
    let bench = Bench::with(wishes).await;
    limit(&bench, "acme", 1).await;
    limit(&bench, "other", 1).await;
    let app = App::new();
    bench.clock.stand();
    for n in 0..60 {
        bench.input(Some("acme"), app.report(n, 2)).await;
    }
    for n in 60..63 {
        bench.input(Some("other"), app.report(n, 2)).await;
    }
    let mut lanes = vec![bench.live()];
    // The burst of two seconds each.
    assert_eq!(of(&bench.wait(&bench.names.overflow, 59).await, "other").len(), 1);
    lanes.push(bench.retry());
    // Each half of acme's has a burst of one.
    let outputs = bench.wait(&bench.names.output, 5).await;
    assert!(of(&outputs, "acme").len() <= 4);
    limit(&bench, "acme", 0).await;
    bench.clock.ahead(60);
    let outputs = bench.wait(&bench.names.output, 63).await;
    let ids: BTreeSet<_> = outputs.iter().map(|r| r.headers.get_text(headers::REPORT_ID)).collect();
    assert_eq!((ids.len(), outputs.len()), (63, 63));
    let (now, window) = (SystemClock.now_micros() / 1_000, Window::default());
    let audited = run_audit(&bench.settings, window, now, Duration::from_secs(30), |_| {}).await.unwrap();
    let summary = audited.summary;
    assert!(summary.contradictions.is_empty() && summary.findings.is_empty(), "{summary:?}");
    let sum = summary.total();
    assert_eq!((sum.records, sum.input, sum.out, sum.waiting, sum.unread), (63, 63, 63, 0, 0));
    bench.end(lanes).await;
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_report_whose_symbols_come_late_does_not_wait_for_the_rate_of_another_tenant() {
    let bench = Bench::with(Wishes {
        patience: Duration::from_secs(1),
        input_partitions: 1,
        overflow_partitions: 1,
        ..Wishes::default()
    });
    let bench = bench.await;
    limit(&bench, "acme", 1).await;
    let app = App::new();
    bench.clock.stand();
    let hold = bench.memory.hold(Operation::Get, "t/other/");
    for n in 0..20 {
        bench.input(Some("acme"), app.report(n, 2)).await;
    }
    bench.input(Some("other"), app.report(20, 2)).await;
    let mut lanes = vec![bench.live()];
    bench.wait(&bench.names.overflow, 18).await;
    bench.wait(&bench.names.retry_1s, 1).await;
    assert_eq!(bench.reasons(&bench.names.retry_1s).await, [("cold".to_owned(), 1)]);
    drop(hold);
    lanes.push(bench.retry());
    bench.clock.ahead(60);
    let outputs = wait_of(&bench, "other", 1).await;
    assert!(of(&outputs, "acme").len() < 20);
    bench.end(lanes).await;
}

/// Proves: bounded-input
#[tokio::test(flavor = "multi_thread")]
async fn a_report_larger_than_its_tenants_may_be_is_a_dead_letter_that_names_the_limit() {
    let app = App::new();
    let (small, large) = (app.report(1, 2), app.report(2, 400));
    let limits = TenantLimits { report_bytes: small.len() as u64, ..TenantLimits::default() };
    let bench = Bench::with(Wishes { limits, ..Wishes::default() }).await;
    let array = [b"[", &small[..], b",", &large[..], b"]"].concat();
    bench.input(Some("acme"), small.clone()).await;
    bench.input(Some("acme"), large.clone()).await;
    bench.input(Some("acme"), array).await;
    bench.input(Some("other"), large.clone()).await;
    let lane = bench.live();
    assert_eq!(bench.wait(&bench.names.output, 3).await.len(), 3);
    let dead = bench.wait(&bench.names.dead_letter, 2).await;
    assert_eq!(dead.len(), 2);
    for letter in &dead {
        assert_eq!(letter.headers.get_text(headers::REASON), Some("too_large"));
        assert!(letter.headers.get_text(headers::DETAIL).unwrap().contains(&small.len().to_string()));
        assert_eq!(letter.value.as_deref(), Some(&large[..]));
    }
    bench.end(vec![lane]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_the_rate_is_copied_unread_and_judged_where_it_is_its_turn() {
    let limits = TenantLimits { units_per_second: 1, ..TenantLimits::default() };
    let bench = Bench::with(Wishes { limits, input_partitions: 1, ..Wishes::default() }).await;
    let app = App::new();
    bench.clock.stand();
    // The burst of two seconds. The records of one batch take their units in no order.
    for value in [app.report(1, 2), app.report(2, 2)] {
        bench.input(Some("acme"), value).await;
    }
    let mut lanes = vec![bench.live()];
    assert_eq!(bench.wait(&bench.names.output, 2).await.len(), 2);
    // What is no report at all.
    bench.input(Some("acme"), b"\xffno report".to_vec()).await;
    let over = bench.wait(&bench.names.overflow, 1).await.remove(0);
    assert_eq!(over.headers.get_text(headers::REASON), Some("over_share"));
    assert_eq!(over.value.as_deref(), Some(&b"\xffno report"[..]));
    assert!(bench.read(&bench.names.dead_letter).await.is_empty(), "nobody has read it yet");
    lanes.push(bench.retry());
    let dead = bench.wait(&bench.names.dead_letter, 1).await.remove(0);
    assert_eq!(dead.value, over.value);
    let text = |name| dead.headers.get_text(name);
    assert_eq!(text(headers::SOURCE_TOPIC), Some(&*bench.names.overflow));
    assert_eq!(text(headers::ORIGIN_TOPIC), Some(&*bench.names.input));
    bench.end(lanes).await;
}

/// The only thread is held until every lane has work.
#[tokio::test(flavor = "multi_thread")]
async fn the_lanes_share_the_cpu_eight_to_two_to_one() {
    let bench = Bench::new().await;
    let pool = CpuPool::new(1).unwrap();
    let shares =
        [live::LIVE_LANE, retry::RETRY_LANE].map(|lane| (lane, Arc::new(TenantRates::new(Duration::ZERO))));
    let (live, retry, again) = build_processors(&Settings::default(), &pool, &bench.worker, &shares);
    let (begin, gate) = std::sync::mpsc::channel::<()>();
    let held = pool.submit_job(move || gate.recv());
    let order = Arc::new(Mutex::new(String::new()));
    let mut jobs = Vec::new();
    for (lane, resources) in [('3', &again.resources), ('2', &retry.resources), ('1', &live.resources)] {
        for _ in 0..22 {
            let order = order.clone();
            jobs.push(resources.cpu.submit_job(move || order.lock().push(lane)));
        }
    }
    begin.send(()).unwrap();
    held.await.unwrap().unwrap();
    for job in jobs {
        job.await.unwrap();
    }
    let first = order.lock().get(..22).unwrap().to_owned();
    let of = |lane| first.matches(lane).count();
    assert_eq!((of('1'), of('2'), of('3')), (16, 4, 2), "{first}");
    bench.end(Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_in_overflow_costs_its_tenant_as_much_as_its_reports() {
    let wishes = Wishes { overflow_partitions: 1, ..Wishes::default() };
    let bench = Bench::with(wishes).await;
    limit(&bench, "acme", 10).await;
    let app = App::new();
    bench.clock.stand();
    let headers = || {
        let headers = Headers::new().with(headers::TENANT, "acme");
        headers.with(headers::REASON, "over_share").with(headers::ATTEMPT, "1")
    };
    let reports: Vec<Vec<u8>> = (0..100).map(|n| app.report(n, 2)).collect();
    let array = [b"[".as_slice(), &reports.join(&b','), b"]"].concat();
    bench.input_with(&bench.names.overflow, headers(), array).await;
    let lane = bench.retry();
    assert_eq!(bench.wait(&bench.names.output, 100).await.len(), 100);
    for n in 100..103 {
        bench.input_with(&bench.names.overflow, headers(), app.report(n, 2)).await;
    }
    // The burst was ten, and there are five a second: ninety are owed.
    for seconds in [0, 15] {
        bench.clock.ahead(seconds);
        bench.retries.wait_until_held(1).await;
        assert_eq!(bench.read(&bench.names.output).await.len(), 100);
    }
    bench.clock.ahead(5);
    assert_eq!(bench.wait(&bench.names.output, 103).await.len(), 103);
    bench.end(vec![lane]).await;
}
