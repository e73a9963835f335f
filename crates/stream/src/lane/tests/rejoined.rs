//! Members whose name in the group is taken.

use super::*;
use rdkafka::consumer::{BaseConsumer, Consumer};

/// Joins the lane's group under the name of its worker, which fences it.
fn take_name(settings: &Settings, config: &LaneConfig) -> BaseConsumer {
    let client = config.consumer_config(settings, &config.member_name(settings));
    let consumer: BaseConsumer = client.create().unwrap();
    consumer.subscribe(&config.list_subscriptions()).unwrap();
    while consumer.assignment().unwrap().count() == 0 {
        drop(consumer.poll(Duration::from_millis(50)));
    }
    consumer
}

fn short_session(bench: &Bench) -> LaneConfig {
    let mut config = bench.config("w");
    // The shortest that the broker takes.
    config.timings.session = Duration::from_secs(6);
    config
}

fn start(bench: &Bench) -> Lane {
    Lane::start(&bench.settings, short_session(bench), bench.copier(), Arc::new(Unobserved)).unwrap()
}

/// As after brokers were lost: a member of the lane's name is in the group, and no process belongs to it.
/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_the_group_fences_joins_again_with_a_new_consumer() {
    let bench = Bench::new().await;
    let lane = start(&bench);
    bench.input(numbers(0..50)).await;
    assert_once(&bench.outputs(50).await, 50);
    let (settings, config) = (bench.settings.clone(), short_session(&bench));
    tokio::task::spawn_blocking(move || drop(take_name(&settings, &config))).await.unwrap();
    until(&lane, |s| s.paused.as_ref().is_some_and(|why| why.contains("out of the consumer group"))).await;
    bench.input(numbers(50..100)).await;
    assert_once(&bench.outputs(100).await, 100);
    assert_eq!(lane.status().borrow().paused, None);
    stop(lane).await;
    bench.done().await;
}

/// Two processes were given one name: the first one says so and ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_whose_name_another_process_keeps_ends() {
    let bench = Bench::new().await;
    let mut lane = start(&bench);
    until(&lane, |s| s.partitions > 0).await;
    let (settings, config) = (bench.settings.clone(), short_session(&bench));
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let other = tokio::task::spawn_blocking(move || {
        let consumer = take_name(&settings, &config);
        while !ended.load(Ordering::SeqCst) {
            drop(consumer.poll(Duration::from_millis(50)));
        }
    });
    let end = lane.wait_for_end().await;
    assert!(matches!(end, Err(LaneError::Fenced { .. })), "{end:?}");
    over.store(true, Ordering::SeqCst);
    other.await.unwrap();
    bench.done().await;
}
