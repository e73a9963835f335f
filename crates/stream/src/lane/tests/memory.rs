//! What a lane holds at most.

use super::*;
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// An observer that keeps the highest figures.
#[derive(Default)]
struct Highest {
    in_flight: AtomicUsize,
    fetched: AtomicU64,
    figures: AtomicUsize,
    produced: AtomicUsize,
}

impl Observer for Highest {
    fn in_flight(&self, bytes: usize) {
        self.in_flight.fetch_max(bytes, Ordering::SeqCst);
    }

    fn record_fetched(&self, bytes: u64) {
        self.fetched.fetch_max(bytes, Ordering::SeqCst);
        self.figures.fetch_add(1, Ordering::SeqCst);
    }

    fn record_produced(&self, bytes: usize) {
        self.produced.fetch_max(bytes, Ordering::SeqCst);
    }
}

const RECORD: usize = 64 << 10;

/// Text that no compression makes small.
fn noise(n: u8) -> String {
    let mut state = u32::from(n) + 1;
    let letters = std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b' ' + (state >> 24) as u8 % 90)
    });
    letters.take(RECORD).collect()
}

/// The outputs of one transaction are many times what the client's queue may hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_larger_than_the_producers_budget_goes_through_it() {
    let bench = Bench::new().await;
    for n in 0..64 {
        bench.input([noise(n)]).await;
    }
    let mut settings = bench.settings.clone();
    settings.max_record_bytes = 256 << 10;
    settings.budget.produced = settings.max_output_bytes();
    let highest = Arc::new(Highest::default());
    let mut config = bench.config("w");
    config.batch = BatchLimits { records: 64, bytes: 8 << 20, wait: Duration::from_secs(2) };
    let lane = Lane::start(&settings, config, bench.copier(), highest.clone()).unwrap();
    assert_once(&bench.outputs(64).await, 64);
    let produced = highest.produced.load(Ordering::SeqCst);
    assert!(
        (1 << 19..=settings.budget.produced + RECORD).contains(&produced),
        "{produced} bytes were queued"
    );
    stop(lane).await;
    bench.done().await;
}

/// Much more waits than the budget allows, and nothing gets done: the lane stops fetching.
/// Proves: bounded-input
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_gets_nothing_done_stops_fetching_at_its_budget() {
    let bench = Bench::new().await;
    // Sixteen megabytes.
    for n in 0..=255 {
        // One by one: all of them in one batch would be larger than the topic takes.
        bench.input([noise(n)]).await;
    }
    let mut settings = bench.settings.clone();
    settings.budget.fetched = 2 << 20;
    let copier = bench.copier();
    copier.open.send_replace(false);
    let highest = Arc::new(Highest::default());
    let mut config = bench.config("w");
    config.batch.bytes = 1 << 20;
    config.batch.records = 1_000;
    let lane = Lane::start(&settings, config, copier.clone(), highest.clone()).unwrap();
    let fetching = async {
        while highest.in_flight.load(Ordering::SeqCst) < 1 << 20 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Long enough for the client to fetch all of it many times over.
        let before = highest.figures.load(Ordering::SeqCst);
        while highest.figures.load(Ordering::SeqCst) < before + 3 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(2 * ANSWER, fetching).await.expect("the lane fetches");
    let held = highest.in_flight.load(Ordering::SeqCst);
    // One batch being prepared, and twice as much gathered behind it, each by at most a record over.
    assert!((1 << 20..=(3 << 20) + 3 * RECORD).contains(&held), "{held} bytes are held");
    // The budget, and one answer of the broker that was on its way.
    let fetched = highest.fetched.load(Ordering::SeqCst);
    assert!(fetched <= (3 << 20) + RECORD as u64, "{fetched} bytes are in the client's queue");
    copier.open.send_replace(true);
    assert_once(&bench.outputs(256).await, 256);
    stop(lane).await;
    bench.done().await;
}
