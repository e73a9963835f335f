//! An attempt counts only where the process died with it: everything else that ends a try takes it back.

use super::held::committed;
use super::*;
use rdkafka::Offset;

/// Waits until the group has these offset and metadata for a partition of the input.
async fn until_committed(bench: &Bench, partition: i32, metadata: &str) {
    let wanted = (Offset::Offset(0), metadata.to_owned());
    let mut last = committed(&bench.settings, partition);
    for _ in 0..3_000 {
        if last == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        last = committed(&bench.settings, partition);
    }
    panic!("{last:?} and not {wanted:?}");
}

/// Waits until records of `partitions` partitions are being prepared; their attempts are noted then.
async fn until_prepared(copier: &Copier, partitions: usize) {
    let begun = || copier.prepared.lock().iter().map(|at| at.partition).collect::<BTreeSet<_>>().len();
    for _ in 0..6_000 {
        if begun() >= partitions {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} partitions were begun and not {partitions}", begun());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_takes_the_attempt_back() {
    let bench = Bench::new().await;
    bench.input_at(0, ["innocent".to_owned()]);
    let copier = bench.copier();
    copier.open.send_replace(false);
    (*copier.pauses.lock(), *copier.pause.lock()) = (1, Duration::from_secs(600));
    let lane = bench.start("w", &copier);
    until_prepared(&copier, 1).await;
    until_committed(&bench, 0, "attempt=1").await;
    copier.open.send_replace(true);
    until(&lane, |s| s.paused.is_some()).await;
    until_committed(&bench, 0, "").await;
    stop(lane).await;
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_takes_the_attempt_back() {
    let bench = Bench::new().await;
    bench.input_at(0, ["innocent".to_owned()]);
    let copier = bench.copier();
    copier.open.send_replace(false);
    let mut lane = bench.start("w", &copier);
    until_prepared(&copier, 1).await;
    until_committed(&bench, 0, "attempt=1").await;
    // It is not done in time and given up.
    lane.stop(Duration::ZERO);
    tokio::time::timeout(ANSWER, lane.wait_for_end()).await.unwrap().unwrap();
    until_committed(&bench, 0, "").await;
    bench.done().await;
}

/// Both are in the middle of a batch: what moves was tried by the first worker and is tried by the
/// second now, which is its first attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_moves_takes_no_attempt_along() {
    let bench = Bench::new().await;
    for partition in 0..4 {
        bench.input_at(partition, ["innocent".to_owned()]);
    }
    let (first, second) = (bench.copier(), bench.copier());
    for copier in [&first, &second] {
        copier.open.send_replace(false);
    }
    let mut config = bench.config("a");
    // All four are one batch.
    config.batch = BatchLimits { records: 4, wait: Duration::from_secs(600), ..config.batch };
    let a = Lane::start(&bench.settings, config, first.clone(), Arc::new(Unobserved)).unwrap();
    until_prepared(&first, 4).await;
    for partition in 0..4 {
        until_committed(&bench, partition, "attempt=1").await;
    }
    let b = bench.start("b", &second);
    until(&b, |s| s.partitions == 2).await;
    until_prepared(&second, 1).await;
    let moved: BTreeSet<i32> = second.prepared.lock().iter().map(|at| at.partition).collect();
    for partition in moved {
        until_committed(&bench, partition, "attempt=1").await;
    }
    for copier in [&first, &second] {
        copier.open.send_replace(true);
    }
    assert_once(&bench.outputs(4).await, 4);
    stop(a).await;
    stop(b).await;
    bench.done().await;
}
