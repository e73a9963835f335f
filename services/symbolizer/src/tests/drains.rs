//! Records that wait in the overflow topic of ingest for the rate of their key.

use super::worker_fixture::*;
use std::collections::BTreeSet;
use std::time::Duration;
use unslide_audit::{Summary, Window, run_audit};
use unslide_model::{Clock, SystemClock};
use unslide_proto::headers;
use unslide_stream::{Headers, OutRecord};

/// Sends a record as the api does, with the rate at which its key is drained.
async fn send_over_rate(bench: &Bench, key: &str, rate: &str, more: Headers, value: Vec<u8>) {
    let mut record = OutRecord::for_topic(bench.names.ingest_overflow.as_str(), value)
        .key(key.to_owned())
        .header(headers::TENANT, "acme")
        .header(headers::TRACEPARENT, TRACE)
        .header(headers::DRAIN_RATE, rate.to_owned());
    more.iter().for_each(|header| record.headers.push(header.0.to_owned(), header.1.clone()));
    bench.producer.send_record(&record).await.unwrap();
}

async fn audit(bench: &Bench) -> Summary {
    let now = SystemClock.now_micros() / 1_000;
    let audited = run_audit(&bench.settings, Window::default(), now, Duration::from_secs(30), |_| {});
    let summary = audited.await.unwrap().summary;
    assert!(summary.is_clean(), "{:?} {:?}", summary.contradictions, summary.findings);
    summary
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_drained_at_its_rate_with_the_oldest_first_and_the_audit_sees_what_waits() {
    let bench = Bench::with(Wishes { overflow_partitions: 1, ..Wishes::default() }).await;
    let app = App::new();
    bench.clock.stand();
    for n in 0..30 {
        send_over_rate(&bench, "acme/1", "10", Headers::new(), app.report(n, 2)).await;
    }
    let total = audit(&bench).await.total();
    assert_eq!((total.input, total.waiting, total.unread), (30, 30, 0));
    let lanes = vec![bench.retry()];
    bench.retries.wait_until_held(1).await;
    let outputs = bench.wait(&bench.names.output, 20).await;
    assert_eq!(outputs.len(), 20, "the burst of two seconds, and no time goes by");
    let oldest: BTreeSet<i64> =
        outputs.iter().filter_map(|output| output.headers.get_number(headers::SOURCE_OFFSET)).collect();
    assert_eq!(oldest, (0..20).collect());
    let total = audit(&bench).await.total();
    assert_eq!((total.input, total.out, total.waiting), (30, 20, 10));
    bench.clock.ahead(2);
    bench.wait(&bench.names.output, 30).await;
    let total = audit(&bench).await.total();
    assert_eq!((total.input, total.out, total.waiting), (30, 30, 0));
    bench.end(lanes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_event_is_sent_on_once_as_it_would_have_been_sent() {
    let bench = Bench::new().await;
    let sessions = bench.names.sessions.clone();
    let to = |topic: &str| Headers::new().with(headers::DRAIN_TOPIC, topic.to_owned());
    let event = to(&sessions).with(headers::DRAIN_KEY, "acme/run");
    send_over_rate(&bench, "acme/1", "10", event.with(headers::REFUSED_REASON, "x"), b"{}".to_vec()).await;
    // No other topic can be named.
    send_over_rate(&bench, "acme/1", "10", to(&bench.names.tenant_config), b"{}".to_vec()).await;
    let lanes = vec![bench.retry()];
    let sent = bench.wait(&sessions, 1).await;
    assert_eq!(bench.wait(&bench.names.dead_letter, 1).await.len(), 1);
    let names: Vec<&str> = sent[0].headers.iter().map(|header| header.0).collect();
    assert_eq!(names, [headers::TENANT, headers::TRACEPARENT, headers::REFUSED_REASON]);
    assert_eq!(
        (sent[0].key.as_deref(), sent[0].value.as_deref()),
        (Some(&b"acme/run"[..]), Some(&b"{}"[..]))
    );
    let total = audit(&bench).await.total();
    assert_eq!((sent.len(), total.input, total.forwarded, total.dead_letter), (1, 2, 1, 1));
    bench.end(lanes).await;
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_drainer_that_is_killed_neither_loses_nor_doubles() {
    let bench = Bench::with(Wishes { overflow_partitions: 2, ..Wishes::default() }).await;
    let app = App::new();
    let sessions = bench.names.sessions.clone();
    for n in 0..300 {
        let key = format!("acme/{}", n % 5);
        send_over_rate(&bench, &key, "20", Headers::new(), app.report(n, 2)).await;
        let event = Headers::new().with(headers::DRAIN_TOPIC, sessions.clone());
        send_over_rate(&bench, &key, "20", event, format!("{{\"id\":{n}}}").into_bytes()).await;
    }
    for due in [1, 40, 80, 120] {
        // A lane that is dropped ends in the middle of its transaction, and the next one fences it off.
        let lane = bench.retry();
        bench.retries.wait_for_due(due).await;
        drop(lane);
    }
    let lanes = vec![bench.retry()];
    assert_eq!(bench.wait(&bench.names.output, 300).await.len(), 300);
    assert_eq!(bench.wait(&sessions, 300).await.len(), 300);
    let total = audit(&bench).await.total();
    assert_eq!((total.input, total.out, total.forwarded, total.waiting), (600, 300, 300, 0));
    bench.end(lanes).await;
}
