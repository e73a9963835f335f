//! When symbols, or outputs, have trouble with object storage.

use super::worker_fixture::*;
use crate::symbols::breaker::BreakerLimits;
use std::time::Duration;
use unslide_artifacts::{Fault, Operation};
use unslide_model::DebugId;
use unslide_proto::headers;
use unslide_proto::report::Resymbolicate;
use unslide_symbolicate::most_bytes;
use unslide_testkit::macho::longest_chain;

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn one_object_that_fails_sends_its_own_reports_to_the_retry_tiers_and_no_others() {
    let bench = Bench::new().await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let broken = DebugId([0xb0; 16]);
    bench.memory.fail(Operation::Get, broken.to_compact().get(2..).unwrap(), Fault::Transient, None);
    let report = app.report_of(broken, 1, 2);
    bench.input(Some("acme"), report.clone()).await;
    bench.input(Some("acme"), app.report(2, 2)).await;
    let mut lanes = vec![bench.live()];
    assert!(symbolicated(&bench.wait(&bench.names.output, 1).await[0]) > 0);
    let waiting = bench.wait(&bench.names.retry_10s, 1).await.remove(0);
    let text = |name| waiting.headers.get_text(name).unwrap();
    assert_eq!(waiting.value.as_deref(), Some(&report[..]));
    assert_eq!(waiting.key.as_deref(), Some(format!("acme/{broken}").as_bytes()));
    assert_eq!((text(headers::REASON), text(headers::ATTEMPT)), ("fetch_failed", "1"));
    assert_eq!((text(headers::TENANT), text(headers::ORIGIN_TOPIC)), ("acme", &*bench.names.input));

    // All tiers, one after the other, and then an answer that says what was not to be had.
    bench.clock.ahead(3_600);
    lanes.push(bench.retry());
    let outputs = bench.wait(&bench.names.output, 2).await;
    let last = outputs.iter().find(|r| symbolicated(r) == 0).unwrap();
    assert_eq!(json(last)["symbolication"]["images"][0]["status"], "fetching_failed");
    assert_eq!(last.headers.get_text(headers::ORIGIN_TOPIC), Some(&*bench.names.input));
    assert_eq!(last.headers.get_text(headers::SOURCE_TOPIC), Some(&*bench.names.retry_10m));
    for (topic, attempt) in
        [(&bench.names.retry_10s, 1), (&bench.names.retry_1m, 2), (&bench.names.retry_10m, 3)]
    {
        assert_eq!(bench.reasons(topic).await, [("fetch_failed".to_owned(), attempt)], "{topic}");
    }
    bench.end(lanes).await;
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn access_denied_pauses_the_lane_and_is_never_taken_for_missing() {
    let bench = Bench::new().await;
    let app = App::new();
    bench.publish(&app, 1).await;
    bench.memory.fail(Operation::Get, "t/acme/", Fault::Refused, None);
    let lane = bench.live();
    bench.input(Some("acme"), app.report(1, 2)).await;
    let status = paused(&lane).await;
    let said = unready(&lane).await;
    assert_eq!(Some(&said), status.paused.as_ref());
    assert!(said.starts_with("symbols of 1 debug ids cannot be fetched: object storage refused"), "{said}");
    assert!(!said.contains("acme") && !said.contains(app.id.to_compact().get(2..).unwrap()), "{said}");
    for topic in [&bench.names.output, &bench.names.retry_10s, &bench.names.overflow] {
        assert!(bench.read(topic).await.is_empty(), "{topic}");
    }
    bench.memory.heal();
    assert!(symbolicated(&bench.wait(&bench.names.output, 1).await[0]) > 0);
    bench.end(vec![lane]).await;
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn symbols_that_come_late_send_a_report_by_way_of_the_tier_of_one_second_and_are_fetched_once() {
    let bench = Bench::with(Wishes { patience: Duration::from_millis(50), ..Wishes::default() }).await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let hold = bench.memory.hold(Operation::Get, "t/acme/");
    bench.input(Some("acme"), app.report(1, 2)).await;
    let mut lanes = vec![bench.live()];
    let waiting = bench.wait(&bench.names.retry_1s, 1).await.remove(0);
    assert_eq!(waiting.headers.get_text(headers::REASON), Some("cold"));
    // Another report of the same image joins the download that is under way.
    bench.input(Some("acme"), app.report(2, 2)).await;
    bench.wait(&bench.names.retry_1s, 2).await;
    bench.clock.ahead(1);
    lanes.push(bench.retry());
    drop(hold);
    let outputs = bench.wait(&bench.names.output, 2).await;
    assert!(outputs.iter().all(|r| symbolicated(r) > 0));
    assert!(outputs.iter().all(|r| r.headers.get_text(headers::SOURCE_TOPIC) == Some(&bench.names.retry_1s)));
    assert_eq!(bench.memory.call_count(Operation::Get), 1);
    assert!(bench.read(&bench.names.retry_10s).await.is_empty());
    bench.end(lanes).await;
}

/// A bench with a lane that waits ten milliseconds for symcaches, and very long while nothing else is there
/// to do.
async fn idle_bench() -> Bench {
    let (patience, idle_patience) = (Duration::from_millis(10), Duration::from_secs(600));
    Bench::with(Wishes { patience, idle_patience, input_partitions: 1, ..Wishes::default() }).await
}

/// Returns once `downloads` downloads were begun, and the short wait for the last is over.
async fn begun(bench: &Bench, downloads: usize) {
    while bench.memory.call_count(Operation::Get) < downloads {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A real pause: nothing tells the end of the short wait. Too short a pause fails nothing.
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_first_report_of_a_symcache_waits_for_it_where_nothing_else_waits() {
    let bench = idle_bench().await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let hold = bench.memory.hold(Operation::Get, "t/acme/");
    let lane = bench.live();
    bench.input(Some("acme"), app.report(1, 2)).await;
    begun(&bench, 1).await;
    drop(hold);
    let output = bench.wait(&bench.names.output, 1).await.remove(0);
    assert!(symbolicated(&output) > 0);
    assert_eq!(output.headers.get_text(headers::SOURCE_TOPIC), Some(&*bench.names.input));
    assert!(bench.read(&bench.names.retry_1s).await.is_empty());
    bench.end(vec![lane]).await;
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_waits_for_a_symcache_lets_the_next_go_on_at_once() {
    let bench = idle_bench().await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let hold = bench.memory.hold(Operation::Get, "t/acme/");
    let lane = bench.live();
    bench.input(Some("acme"), app.report_of(DebugId([1; 16]), 1, 2)).await;
    begun(&bench, 1).await;
    bench.input(Some("other"), app.report(2, 2)).await;
    let output = bench.wait(&bench.names.output, 1).await.remove(0);
    assert_eq!(output.headers.get_text(headers::TENANT), Some("other"));
    assert_eq!(bench.reasons(&bench.names.retry_1s).await, [("cold".to_owned(), 1)]);
    // Nothing waits any more, so the next may wait again.
    let downloads = bench.memory.call_count(Operation::Get);
    bench.input(Some("acme"), app.report(3, 2)).await;
    begun(&bench, downloads + 1).await;
    drop(hold);
    let outputs = bench.wait(&bench.names.output, 2).await;
    assert_eq!(outputs.iter().filter(|output| symbolicated(output) > 0).count(), 1);
    assert_eq!(bench.read(&bench.names.retry_1s).await.len(), 1);
    bench.end(vec![lane]).await;
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn reports_that_lack_nothing_or_are_other_tenants_wait_for_no_symcache_but_for_a_moment() {
    let bench = idle_bench().await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let hold = bench.memory.hold(Operation::Get, "t/acme/");
    // One batch each time: they are there before the lane.
    bench.input(Some("acme"), app.report(1, 2)).await;
    bench.input(Some("other"), app.report(2, 2)).await;
    let lane = bench.live();
    bench.wait(&bench.names.output, 1).await;
    assert_eq!(bench.reasons(&bench.names.retry_1s).await, [("cold".to_owned(), 1)]);
    drop(hold);
    bench.end(vec![lane]).await;
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_for_many_stops_the_lane_and_costs_no_report_a_try() {
    let limits =
        BreakerLimits { debug_ids: 3, window: Duration::from_secs(60), open: Duration::from_secs(2) };
    let bench = Bench::with(Wishes { breaker: limits, input_partitions: 1, ..Wishes::default() }).await;
    let app = App::new();
    bench.publish(&app, 1).await;
    bench.memory.fail(Operation::Get, "t/acme/", Fault::Transient, None);
    // Readiness' own question fails as well.
    bench.memory.fail(Operation::List, "", Fault::Transient, None);
    for n in 0..8 {
        bench.input(Some("acme"), app.report_of(DebugId([n; 16]), n.into(), 2)).await;
    }
    bench.input(Some("acme"), app.report(9, 2)).await;
    let lane = bench.live();
    let status = paused(&lane).await;
    assert!(status.paused.as_ref().unwrap().contains("object storage fails"), "{status:?}");
    assert!(bench.worker.enricher.symbols.breaker().is_open());
    let said = unready(&lane).await;
    assert!(said.contains("object storage fails") && said.contains("could not list"), "{said}");
    assert!(!said.contains("acme"), "{said}");
    // It is tried now and then, and stays as it is.
    let openings = bench.worker.enricher.symbols.breaker().opened();
    while bench.worker.enricher.symbols.breaker().opened() < openings + 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for topic in [&bench.names.output, &bench.names.retry_10s, &bench.names.overflow] {
        assert!(bench.read(topic).await.is_empty(), "{topic}");
    }
    bench.memory.heal();
    let outputs = bench.wait(&bench.names.output, 9).await;
    assert_eq!(outputs.iter().filter(|r| symbolicated(r) > 0).count(), 1);
    assert!(!bench.worker.enricher.symbols.breaker().is_open());
    assert!(bench.read(&bench.names.retry_10s).await.is_empty(), "no try was counted");
    bench.end(vec![lane]).await;
}

/// Throttling of one report's symbols is heard at the first failure.
/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_for_the_only_report_costs_it_no_try_in_any_lane() {
    let limits =
        BreakerLimits { debug_ids: 10, window: Duration::from_secs(60), open: Duration::from_secs(1) };
    let bench = Bench::with(Wishes { breaker: limits, ..Wishes::default() }).await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let broken = DebugId([0xb0; 16]);
    let key = broken.to_compact();
    bench.memory.fail(Operation::Get, key.get(2..).unwrap(), Fault::Transient, Some(1));
    bench.input(Some("acme"), app.report_of(broken, 1, 2)).await;
    let mut lanes = vec![bench.live()];
    bench.wait(&bench.names.retry_10s, 1).await;
    // While it waits for its second try, the store begins to fail as a whole.
    bench.memory.fail(Operation::Get, "", Fault::Transient, None);
    bench.memory.fail(Operation::List, "", Fault::Transient, None);
    bench.clock.ahead(3_600);
    let retry = bench.retry();
    let status = paused(&retry).await;
    assert!(status.paused.as_ref().unwrap().contains("object storage fails"), "{status:?}");
    lanes.push(retry);
    let openings = bench.worker.enricher.symbols.breaker().opened();
    while bench.worker.enricher.symbols.breaker().opened() < openings + 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(bench.read(&bench.names.retry_1m).await.is_empty(), "no further try was counted");
    bench.memory.heal();
    bench.wait(&bench.names.output, 1).await;
    assert!(bench.read(&bench.names.retry_1m).await.is_empty());
    bench.end(lanes).await;
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_too_large_for_kafka_is_cut_down_and_else_its_report_is_a_dead_letter() {
    let app = App::new();
    let report = app.report(1, 300);
    let bench = Bench::with(Wishes { output_bytes: Some(report.len() + 25_000), ..Wishes::default() }).await;
    bench.publish(&app, 1).await;
    let lanes = vec![bench.live(), bench.again()];
    bench.input(Some("acme"), report.clone()).await;
    let output = bench.wait(&bench.names.output, 1).await.remove(0);
    assert_eq!(json(&output)["symbolication"]["truncated"], true);
    assert!(output.value.as_ref().unwrap().len() <= report.len() + 25_000);

    // The input alone leaves no room for anything. The report beside it in the array is published.
    let larger = app.report(2, 1_500);
    let array = [b"[".as_slice(), &larger, b",", &app.report(3, 2), b"]"].concat();
    bench.input(Some("acme"), array).await;
    bench.wait(&bench.names.output, 2).await;
    let dead = bench.wait(&bench.names.dead_letter, 1).await.remove(0);
    let text = |name| dead.headers.get_text(name).unwrap();
    assert_eq!((text(headers::REASON), text(headers::SOURCE_INDEX)), ("too_large", "0"));
    assert!(text(headers::DETAIL).starts_with("the enriched report has "), "{}", text(headers::DETAIL));
    assert_eq!(dead.value.as_deref(), Some(&larger[..]));

    // A stored report that was published under a larger limit: the request ends, the store keeps what it has.
    let wishes = Resymbolicate { revision: 2, needs: app.needs(1), ..Resymbolicate::default() };
    bench.ask(&output, &larger, wishes).await;
    let dead = bench.wait(&bench.names.dead_letter, 2).await;
    let requests = Some(&*bench.names.resymbolicate);
    let dead = dead.iter().find(|r| r.headers.get_text(headers::SOURCE_TOPIC) == requests).unwrap();
    assert_eq!(dead.headers.get_text(headers::REASON), Some("too_large"));
    bench.end(lanes).await;
}

/// Proves: bounded-input
#[tokio::test(flavor = "multi_thread")]
async fn symbols_with_endless_names_make_no_record_much_larger_than_its_reports() {
    let bench = Bench::new().await;
    let app = App::of(&longest_chain(4_000));
    bench.publish(&app, 1).await;
    let lane = bench.live();
    // Twenty megabytes, were every frame answered in full.
    let report = app.report(1, 20);
    bench.input(Some("acme"), report.clone()).await;
    let output = bench.wait(&bench.names.output, 1).await.remove(0);
    assert!(output.value.as_ref().unwrap().len() <= most_bytes(report.len()));
    assert_eq!((symbolicated(&output), &json(&output)["symbolication"]["truncated"]), (21, &true.into()));
    // The reports of an array have no more together than one of their size would have.
    let array: Vec<Vec<u8>> = (2..42).map(|number| app.report(number, 1)).collect();
    let array = [&b"["[..], &array.join(&b","[..]), b"]"].concat();
    bench.input(Some("acme"), array.clone()).await;
    let outputs = bench.wait(&bench.names.output, 41).await;
    let all: usize = outputs.iter().map(|record| record.value.as_ref().unwrap().len()).sum();
    assert!(all <= most_bytes(report.len()) + most_bytes(array.len()), "{all}");
    assert!(outputs.iter().all(|output| symbolicated(output) >= 2));
    assert!(bench.read(&bench.names.dead_letter).await.is_empty());
    bench.end(vec![lane]).await;
}
