//! Transactions that the broker ends, or that another producer takes over.

use super::*;

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_that_wakes_up_inside_its_transaction_is_fenced_off() {
    let bench = Bench::new().await;
    bench.input(numbers(0..100)).await;
    let (reached, at_point) = std::sync::mpsc::channel();
    let (wake, asleep) = std::sync::mpsc::channel::<()>();
    let asleep = Mutex::new(asleep);
    let zombie = bench.start_with(
        "w",
        Arc::new(move || {
            let _ = reached.send(());
            // Sleeps here until it is woken; the others have gone on without it.
            let _ = asleep.lock().recv();
            false
        }),
    );
    tokio::task::spawn_blocking(move || at_point.recv().unwrap()).await.unwrap();
    let lane = bench.start("w", &bench.copier());
    assert_once(&bench.outputs(100).await, 100);
    drop(wake);
    let end = tokio::task::spawn_blocking(move || zombie.join().unwrap()).await.unwrap();
    assert!(end.is_err(), "a fenced lane ends with an error");
    assert_once(&bench.outputs(100).await, 100);
    stop(lane).await;
    bench.done().await;
}

/// Waits until the broker has ended the transaction that is open on the output.
fn wait_for_abort(settings: &Settings) {
    let (scanner, output) = (scan::Scanner::open(settings).unwrap(), settings.topic_names().output);
    let ends: Vec<(i32, i64)> =
        (0..4).map(|partition| (partition, scanner.log_end(&output, partition).unwrap())).collect();
    let is_open =
        |(partition, end): &(i32, i64)| scanner.stable_bounds(&output, *partition).unwrap().1 < *end;
    assert!(ends.iter().any(is_open), "the broker has the transaction's records");
    scanner.wait_stable(&output, &ends, 5 * ANSWER).unwrap();
}

/// The broker aborts a transaction that stays open too long, and fences its producer off. The lane
/// makes a new producer, goes back to what is committed, and does the batch again.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_broker_aborts_is_done_again() {
    let bench = Bench::new().await;
    bench.input(numbers(0..60)).await;
    let calls = std::sync::atomic::AtomicU32::new(0);
    let stalled = bench.settings.clone();
    let stall: Failpoint = Arc::new(move || {
        if calls.fetch_add(1, Ordering::SeqCst) == 1 {
            wait_for_abort(&stalled);
        }
        false
    });
    let (settings, copier) = (bench.settings.clone(), bench.copier());
    let mut config = bench.config("w");
    config.timings.transaction = Duration::from_secs(2);
    let runtime = tokio::runtime::Handle::current();
    let stop = Arc::new(Control::default());
    let lane_stop = Arc::clone(&stop);
    let lane = std::thread::spawn(move || {
        let (status, _) = watch::channel(LaneStatus::default());
        let mut engine =
            Engine::open(&settings, config, copier, Arc::new(Unobserved), status, lane_stop, runtime)?;
        engine.producer.before_commit = Some(stall);
        engine.run()
    });
    assert_once(&bench.outputs(60).await, 60);
    stop.asked.store(true, Ordering::Release);
    tokio::task::spawn_blocking(move || lane.join().unwrap()).await.unwrap().unwrap();
    bench.done().await;
}
