//! What a tenant may use.

use super::world::*;
use crate::config::Settings;
use crate::run::processors;
use crate::shares::Shares;
use crate::{live, retry};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::Operation;
use unslide_model::{Clock, SystemClock};
use unslide_proto::headers;
use unslide_proto::symbol::{TenantLimits, TenantState};
use unslide_runtime::CpuPool;
use unslide_stream::{Headers, Record, audit};

fn of<'r>(records: &'r [Record], tenant: &str) -> Vec<&'r Record> {
    records.iter().filter(|r| r.headers.text(headers::TENANT) == Some(tenant)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_over_its_rate_waits_in_overflow_and_a_quiet_one_behind_it_does_not() {
    let limits = TenantLimits { reports_per_second: 10, ..TenantLimits::default() };
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
        assert_eq!(record.headers.text(headers::REASON), Some("over_share"));
        let key = record.key.as_deref().unwrap();
        assert!([&b"acme/0"[..], b"acme/1"].contains(&key), "{key:?}");
        assert_eq!(record.headers.text(headers::ORIGIN_TOPIC), Some(&*bench.names.input));
    }
    let same = |a: &Record, b: &Record| a.value == b.value;
    assert!(!over.iter().enumerate().any(|(n, a)| over[n + 1..].iter().any(|b| same(a, b))), "each once");

    // There they go on at the tenant's rate: another burst, half for each half of the records.
    lanes.push(bench.retry());
    let outputs = bench.wait(&bench.names.output, 41).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.read(&bench.names.output).await.len(), outputs.len());
    assert_eq!(of(&outputs, "acme").len(), 40);
    for _ in 0..40 {
        if bench.read(&bench.names.output).await.len() >= 101 {
            break;
        }
        bench.clock.ahead(2);
        tokio::time::sleep(Duration::from_millis(2_500)).await;
    }
    assert_eq!(bench.wait(&bench.names.output, 101).await.len(), 101);
    assert!(bench.read(&bench.names.dead_letter).await.is_empty());
    bench.end(lanes).await;
}

/// All outputs, once there are `count` of a tenant.
async fn wait_of(bench: &Bench, tenant: &str, count: usize) -> Vec<Record> {
    for _ in 0..100 {
        let outputs = bench.read(&bench.names.output).await;
        if of(&outputs, tenant).len() >= count {
            return outputs;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{tenant} has no {count} outputs");
}

/// Tells of what a tenant may use, and waits until the worker knows.
async fn limit(bench: &Bench, tenant: &str, reports_per_second: u32) {
    let limits = TenantLimits { reports_per_second, ..TenantLimits::default() };
    tell(&bench.producer, &bench.names, tenant, TenantState::Active, limits).await;
    bench.worker.tenants.refresh().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_overflow_too_a_quiet_tenant_does_not_wait_for_the_rate_of_a_noisy_one_before_it() {
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
    // The burst of two seconds each. One record of the other lies at the end.
    assert_eq!(of(&bench.wait(&bench.names.overflow, 59).await, "other").len(), 1);
    lanes.push(bench.retry());
    // Each half of acme's has a burst of one.
    let outputs = bench.wait(&bench.names.output, 6).await;
    assert_eq!((of(&outputs, "acme").len(), of(&outputs, "other").len()), (4, 2));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.read(&bench.names.overflow).await.len(), 59, "nothing is copied for what may pass");
    bench.clock.ahead(12);
    let outputs = wait_of(&bench, "other", 3).await;
    assert!(of(&outputs, "acme").len() <= 8, "it goes on at its own rate");
    let copies = bench.wait(&bench.names.overflow, 59 + 50).await;
    assert!(copies.iter().all(|r| r.headers.text(headers::REASON) == Some("over_share")));

    // However often a record was copied, it has one outcome in the end, and the audit sees that.
    limit(&bench, "acme", 0).await;
    let outputs = bench.wait(&bench.names.output, 63).await;
    let ids: BTreeSet<_> = outputs.iter().map(|r| r.headers.text(headers::REPORT_ID)).collect();
    assert_eq!((ids.len(), outputs.len()), (63, 63));
    let (now, window) = (SystemClock.now_micros() / 1_000, audit::Window::default());
    let audited = audit::run(&bench.settings, window, now, Duration::from_secs(30), |_| {}).await.unwrap();
    let balance = audited.balance;
    assert!(balance.contradictions.is_empty() && balance.findings.is_empty(), "{balance:?}");
    let sum = balance.total();
    assert_eq!((sum.records, sum.input, sum.out, sum.waiting, sum.unread), (63, 63, 63, 0, 0));
    bench.end(lanes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_whose_symbols_come_late_does_not_wait_for_the_rate_of_another_tenant() {
    let bench = Bench::with(Wishes {
        patience: Duration::from_secs(1),
        input_partitions: 1,
        overflow_partitions: 1,
        overflow_copies: 0,
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
    bench.wait(&bench.names.retry_10s, 1).await;
    assert_eq!(bench.reasons(&bench.names.retry_10s).await, [("cold".to_owned(), 1)]);
    drop(hold);
    lanes.push(bench.retry());
    bench.clock.ahead(60);
    let outputs = wait_of(&bench, "other", 1).await;
    assert!(of(&outputs, "acme").len() < 20);
    bench.end(lanes).await;
}

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
        assert_eq!(letter.headers.text(headers::REASON), Some("too_large"));
        assert!(letter.headers.text(headers::DETAIL).unwrap().contains(&small.len().to_string()));
        assert_eq!(letter.value.as_deref(), Some(&large[..]));
    }
    bench.end(vec![lane]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_the_rate_is_copied_unread_and_judged_where_it_is_its_turn() {
    let limits = TenantLimits { reports_per_second: 1, ..TenantLimits::default() };
    let bench = Bench::with(Wishes { limits, input_partitions: 1, ..Wishes::default() }).await;
    let app = App::new();
    bench.clock.stand();
    // The burst of two seconds, and what is no report at all.
    for value in [app.report(1, 2), app.report(2, 2), b"\xffno report".to_vec()] {
        bench.input(Some("acme"), value).await;
    }
    let mut lanes = vec![bench.live()];
    assert_eq!(bench.wait(&bench.names.output, 2).await.len(), 2);
    let over = bench.wait(&bench.names.overflow, 1).await.remove(0);
    assert_eq!(over.headers.text(headers::REASON), Some("over_share"));
    assert_eq!(over.value.as_deref(), Some(&b"\xffno report"[..]));
    assert!(bench.read(&bench.names.dead_letter).await.is_empty(), "nobody has read it yet");
    lanes.push(bench.retry());
    let dead = bench.wait(&bench.names.dead_letter, 1).await.remove(0);
    assert_eq!(dead.value, over.value);
    let text = |name| dead.headers.text(name);
    assert_eq!(text(headers::SOURCE_TOPIC), Some(&*bench.names.overflow));
    assert_eq!(text(headers::ORIGIN_TOPIC), Some(&*bench.names.input));
    bench.end(lanes).await;
}

/// The only thread is held until every lane has work.
#[tokio::test(flavor = "multi_thread")]
async fn the_lanes_share_the_cpu_eight_to_two_to_one() {
    let bench = Bench::new().await;
    let pool = CpuPool::new(1).unwrap();
    let shares = [live::NAME, retry::NAME].map(|lane| (lane, Arc::new(Shares::new(Duration::ZERO))));
    let (live, retry, again) = processors(&Settings::default(), &pool, &bench.worker, &shares);
    let (begin, gate) = std::sync::mpsc::channel::<()>();
    let held = pool.submit(move || gate.recv());
    let order = Arc::new(Mutex::new(String::new()));
    let mut jobs = Vec::new();
    for (lane, means) in [('3', &again.means), ('2', &retry.means), ('1', &live.means)] {
        for _ in 0..22 {
            let order = order.clone();
            jobs.push(means.cpu.submit(move || order.lock().push(lane)));
        }
    }
    begin.send(()).unwrap();
    held.await.unwrap().unwrap();
    for job in jobs {
        job.await.unwrap();
    }
    let first = order.lock()[..22].to_owned();
    let of = |lane| first.matches(lane).count();
    assert_eq!((of('1'), of('2'), of('3')), (16, 4, 2), "{first}");
    bench.end(Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_in_overflow_costs_its_tenant_as_much_as_its_reports() {
    let wishes = Wishes { overflow_partitions: 1, overflow_copies: 0, ..Wishes::default() };
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
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(bench.read(&bench.names.output).await.len(), 100);
    }
    bench.clock.ahead(5);
    assert_eq!(bench.wait(&bench.names.output, 103).await.len(), 103);
    bench.end(vec![lane]).await;
}
