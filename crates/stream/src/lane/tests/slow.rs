//! A broker that is slow, and one that fences off.

use super::*;
use crate::topic_facts;
use std::collections::HashMap;
use std::sync::atomic::AtomicU32;

/// An observer that counts how transactions end.
#[derive(Default)]
struct Ends(Mutex<HashMap<TransactionEnd, u32>>);

impl Ends {
    fn of(&self, end: TransactionEnd) -> u32 {
        self.0.lock().get(&end).copied().unwrap_or(0)
    }
}

impl Observer for Ends {
    fn record_transaction(&self, end: TransactionEnd, _: f64) {
        *self.0.lock().entry(end).or_default() += 1;
    }
}

/// A slow broker slows a lane down to its own speed and never stops it, as long as it takes one record within
/// a transaction's time-out.
/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_goes_on_at_the_rate_of_a_slow_broker() {
    let client = servers::unique("slow");
    // All records in one transaction would take the broker half a minute.
    servers::set_kafka_quota(&client, Some(50_000.0));
    let bench = Bench::new().await;
    let texts: Vec<String> = (0..100).map(|n| format!("{n} {}", noise(n, 15_000))).collect();
    for texts in texts.chunks(20) {
        bench.input(texts.iter().cloned()).await;
    }
    let mut settings = bench.settings.clone();
    settings.client.insert("client.id".to_owned(), client.clone());
    let mut config = bench.config("w");
    config.batch = BatchLimits { records: 100, bytes: 8 << 20, wait: Duration::from_secs(10) };
    config.timings.transaction = Duration::from_secs(5);
    let ends = Arc::new(Ends::default());
    let lane = Lane::start(&settings, config, bench.copier(), ends.clone()).unwrap();
    let mut status = lane.status();
    let all = status.wait_for(|s| s.records == 100 || s.ended);
    tokio::time::timeout(5 * ANSWER, all).await.expect("progress").unwrap();
    servers::set_kafka_quota(&client, None);
    assert_once(&bench.outputs(100).await, 100);
    let failed = ends.of(TransactionEnd::Aborted) + ends.of(TransactionEnd::Unknown);
    assert!(failed > 0, "the quota was not felt");
    let committed = ends.of(TransactionEnd::Committed);
    assert!(committed > 1);
    // Halved from one transaction to the next, all that is aborted is at most twice the payload. What is aborted while
    // the bound grows again may be once more.
    let output = topic_facts(&bench.settings, &bench.settings.topic_names().output).await.unwrap();
    let written: i64 = output.partitions.iter().map(|partition| partition.end - partition.start).sum();
    // Each transaction ends with a marker in each partition.
    let markers = i64::from(failed + committed) * i64::try_from(output.partitions.len()).unwrap();
    assert!(written <= 4 * 100 + markers, "{written} records were written for 100");
    stop(lane).await;
    bench.done().await;
}

/// Text that no compression makes small.
fn noise(seed: usize, bytes: usize) -> String {
    let mut state = u32::try_from(seed).unwrap() + 1;
    let letters = std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b' ' + (state >> 24) as u8 % 90)
    });
    letters.take(bytes).collect()
}

/// Takes a lane's name once, as another process would.
fn fence(settings: &Settings) {
    use rdkafka::producer::Producer as _;
    let mut config = settings.producer_config();
    config.set("transactional.id", format!("{}unslide.live.w", settings.topic_prefix));
    let other: rdkafka::producer::BaseProducer = config.create().unwrap();
    other.init_transactions(ANSWER).unwrap();
}

/// A lane whose transactions are open for `open` each before they are fenced off, `times` in a row.
async fn fenced(bench: &Bench, transaction: Duration, open: Duration, times: u32) -> (Lane, Arc<Ends>) {
    bench.input(numbers(0..20)).await;
    let calls = AtomicU32::new(0);
    let settings = bench.settings.clone();
    let failpoint: Failpoint = Arc::new(move || {
        if calls.fetch_add(1, Ordering::SeqCst) < times {
            // A real pause: the age of a transaction says whether the fence is slowness.
            std::thread::sleep(open);
            fence(&settings);
        }
        false
    });
    let tune = move |engine: &mut Engine<Copier>| engine.producer.before_commit = Some(failpoint);
    let mut config = bench.config("w");
    config.timings.transaction = transaction;
    let ends = Arc::new(Ends::default());
    let lane = Lane::start_with(&bench.settings, config, bench.copier(), ends.clone(), tune).unwrap();
    (lane, ends)
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_after_the_transactions_time_out_is_slowness_however_often_it_comes() {
    let bench = Bench::new().await;
    // The shortest that the client takes.
    let time_out = Duration::from_secs(1);
    let (lane, ends) = fenced(&bench, time_out, time_out, 7).await;
    assert_once(&bench.outputs(20).await, 20);
    assert!(ends.of(TransactionEnd::Unknown) >= 7);
    stop(lane).await;
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_whose_young_transactions_are_fenced_off_says_that_its_name_is_taken() {
    let bench = Bench::new().await;
    let (mut lane, _) = fenced(&bench, Duration::from_secs(600), Duration::ZERO, u32::MAX).await;
    let end = tokio::time::timeout(3 * ANSWER, lane.wait_for_end()).await.unwrap();
    assert!(matches!(end, Err(LaneError::Fenced { .. })), "{end:?}");
    bench.done().await;
}
