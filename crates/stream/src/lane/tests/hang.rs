//! Lanes that get nowhere.
//! Proves: outages

use super::*;
use crate::lane::transactions::commit::BATCH_ABORTS_LIMIT;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_come_back_ends_the_lane_for_its_owner() {
    let bench = Bench::new().await;
    bench.input(numbers(0..10)).await;
    let (wake, asleep) = std::sync::mpsc::channel::<()>();
    let asleep = Mutex::new(asleep);
    let mut config = bench.config("w");
    config.timings.transaction = Duration::from_secs(1);
    let hang = move |engine: &mut Engine<Copier>| {
        engine.producer.before_commit = Some(Arc::new(move || asleep.lock().recv().is_err()));
    };
    let mut lane =
        Lane::start_with(&bench.settings, config, bench.copier(), Arc::new(Unobserved), hang).unwrap();
    let status = lane.status();
    let end = tokio::time::timeout(Duration::from_secs(60), lane.wait_for_end()).await.unwrap();
    assert!(matches!(end, Err(LaneError::Stuck { call: "commit", .. })), "{end:?}");
    assert!(status.borrow().stalled && !status.borrow().ended);
    // Its owner stops what it has and waits for every lane: that must not hang as well.
    lane.stop(Duration::from_secs(1));
    tokio::time::timeout(Duration::from_secs(10), lane.wait_for_end()).await.unwrap().unwrap();
    drop(wake);
    bench.done().await;
}

/// As after a restart of the broker that coordinates the group.
/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_search_for_the_coordinator_that_does_not_end_costs_the_lane_its_producer_only() {
    let bench = Bench::new().await;
    bench.input(numbers(0..60)).await;
    let (wake, asleep) = std::sync::mpsc::channel::<()>();
    let (asleep, calls) = (Mutex::new(asleep), Arc::new(std::sync::atomic::AtomicU32::new(0)));
    let mut config = bench.config("w");
    config.timings.transaction = Duration::from_secs(1);
    let made = Arc::clone(&calls);
    let hang = move |engine: &mut Engine<Copier>| {
        engine.producer.in_offsets =
            Some(Arc::new(move || made.fetch_add(1, Ordering::SeqCst) == 1 && asleep.lock().recv().is_err()));
    };
    let lane = Lane::start_with(&bench.settings, config, bench.copier(), Arc::new(Unobserved), hang).unwrap();
    assert_once(&bench.outputs(60).await, 60);
    assert_eq!(calls.load(Ordering::SeqCst), 2, "the producer of the second call is replaced");
    // The call comes back at last, and changes nothing.
    drop(wake);
    bench.input(numbers(60..80)).await;
    assert_once(&bench.outputs(80).await, 80);
    stop(lane).await;
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_says_that_messages_wait_and_no_transaction_ends() {
    let bench = Bench::new().await;
    let copier = bench.copier();
    let mut config = bench.config("w");
    config.timings.stall = Duration::from_millis(500);
    let lane = Lane::start(&bench.settings, config, copier.clone(), Arc::new(Unobserved)).unwrap();
    until(&lane, |s| s.partitions == 4).await;
    // Without work a lane does not stall, however long it lasts: a real pause, as the lane's thread has the real clock.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!lane.status().borrow().stalled);
    copier.open.send_replace(false);
    bench.input(numbers(0..10)).await;
    until(&lane, |s| s.stalled).await;
    copier.open.send_replace(true);
    until(&lane, |s| !s.stalled && s.records == 10).await;
    // A pause that the processor asks for has its own reason.
    *copier.pauses.lock() = 40;
    bench.input(numbers(10..20)).await;
    let mut status = lane.status();
    loop {
        let seen = status.borrow_and_update().clone();
        assert!(seen.paused.is_none() || !seen.stalled, "{seen:?}");
        if seen.records >= 20 {
            break;
        }
        tokio::time::timeout(ANSWER, status.changed()).await.unwrap().unwrap();
    }
    stop(lane).await;
    bench.done().await;
}

/// As where the output has fewer replicas in sync than it needs: each transaction is aborted, and the
/// producer is made anew now and then.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_whose_transactions_are_all_aborted_stalls() {
    let bench = Bench::new().await;
    let aborting = Arc::new(AtomicBool::new(true));
    let failing = aborting.clone();
    let aborts = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let aborted = aborts.clone();
    let tune = move |engine: &mut Engine<Copier>| {
        engine.faults.aborted = Some(Arc::new(move || {
            aborted.fetch_add(1, Ordering::SeqCst);
            failing.load(Ordering::SeqCst)
        }));
    };
    let mut config = bench.config("w");
    config.timings.stall = Duration::from_secs(1);
    bench.input(numbers(0..10)).await;
    let lane = Lane::start_with(&bench.settings, config, bench.copier(), Arc::new(Unobserved), tune).unwrap();
    until(&lane, |s| s.stalled).await;
    // A new producer is no progress either, and no further attempt at the first record.
    let several_producers = aborts.load(Ordering::SeqCst) + 3 * (BATCH_ABORTS_LIMIT + 1);
    let many_aborts = async {
        while aborts.load(Ordering::SeqCst) < several_producers {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(lane.status().borrow().stalled);
        }
    };
    tokio::time::timeout(5 * ANSWER, many_aborts).await.expect("it is tried again and again");
    aborting.store(false, Ordering::SeqCst);
    assert_once(&bench.outputs(10).await, 10);
    assert!(bench.read(&bench.settings.topic_names().dead_letter).await.is_empty());
    until(&lane, |s| !s.stalled && s.records == 10).await;
    stop(lane).await;
    bench.done().await;
}

/// Where a batch's outputs cannot be written because a topic is missing, the processor is asked once more:
/// it may know better by now.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_to_a_topic_that_is_missing_is_prepared_again() {
    let bench = Bench::new().await;
    let times = std::sync::atomic::AtomicU32::new(0);
    let tune = move |engine: &mut Engine<Copier>| {
        engine.faults.missing = Some(Arc::new(move || times.fetch_add(1, Ordering::SeqCst) < 2));
    };
    bench.input_at(0, numbers(0..60));
    let copier = bench.copier();
    let lane =
        Lane::start_with(&bench.settings, bench.config("w"), copier.clone(), Arc::new(Unobserved), tune)
            .unwrap();
    until(&lane, |s| s.paused.is_some()).await;
    // Also while it is prepared, until it is written.
    let status = until(&lane, |s| s.records > 0 || s.paused.is_none()).await;
    assert!(status.records > 0, "{status:?}");
    assert_once(&bench.outputs(60).await, 60);
    let first = copier.prepared.lock().iter().filter(|at| at.offset == 0).count();
    assert_eq!(first, 3, "each time anew");
    assert_eq!(lane.status().borrow().paused, None);
    stop(lane).await;
    bench.done().await;
}

/// A batch after it would commit an offset beyond its records.
/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_panics_when_it_is_prepared_again_stays_before_what_follows_it() {
    let bench = Bench::new().await;
    let once = AtomicBool::new(true);
    let tune = move |engine: &mut Engine<Copier>| {
        engine.faults.missing = Some(Arc::new(move || once.swap(false, Ordering::SeqCst)));
    };
    bench.input_at(0, numbers(0..60));
    let copier = bench.copier();
    copier.panics_again.store(true, Ordering::SeqCst);
    let mut config = bench.config("w");
    // Until a batch is full.
    config.batch.wait = Duration::from_secs(5);
    let lane = Lane::start_with(&bench.settings, config, copier.clone(), Arc::new(Unobserved), tune).unwrap();
    assert_once(&bench.outputs(60).await, 60);
    let prepared: Vec<i64> = copier.prepared.lock().iter().map(|at| at.offset).collect();
    assert!(prepared.len() > 80, "the first batch three times, and others after it: {prepared:?}");
    assert_eq!(prepared[prepared.len() - 60..], (0..60).collect::<Vec<i64>>());
    stop(lane).await;
    bench.done().await;
}
