//! The retry lane.

use super::world::*;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use unslide_proto::headers;
use unslide_proto::symbol::TenantState;
use unslide_stream::{OutRecord, Record};

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_record_waits_its_tier_out_and_overflow_does_not_wait_behind_it() {
    let bench = Bench::new().await;
    let app = App::new();
    let told = |topic: &str, number| {
        let mut record = OutRecord::for_topic(topic, app.report(number, 2));
        record.headers.push(headers::TENANT, "acme");
        record
    };
    bench.producer.send_record(&told(&bench.names.retry_10s, 1)).await.unwrap();
    bench.producer.send_record(&told(&bench.names.retry_10m, 2)).await.unwrap();
    bench.producer.send_record(&told(&bench.names.overflow, 3)).await.unwrap();
    let lane = bench.retry();
    let outputs = bench.wait(&bench.names.output, 2).await;
    let of = |topic: &str| outputs.iter().find(|r| r.headers.get_text(headers::SOURCE_TOPIC) == Some(topic));
    let waited = |record: &Record| {
        record.time_millis.unwrap() - record.headers.get_number::<i64>(headers::ORIGIN_TIME).unwrap()
    };
    assert!(waited(of(&bench.names.retry_10s).unwrap()) >= 10_000);
    assert!(of(&bench.names.overflow).is_some() && of(&bench.names.retry_10m).is_none());
    let first = outputs.iter().min_by_key(|r| r.time_millis).unwrap();
    assert_eq!(first.headers.get_text(headers::SOURCE_TOPIC), Some(&*bench.names.overflow));
    bench.end(vec![lane]).await;
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_is_told_of_late_loses_nothing_and_an_unknown_one_is_told_so_in_the_end() {
    let bench = Bench::new().await;
    let app = App::new();
    // To this worker every record is an hour old.
    bench.clock.step(3_600);
    bench.input(Some("late-one"), app.report(1, 2)).await;
    bench.input(Some("nobody"), app.report(2, 2)).await;
    let mut lanes = vec![bench.live()];
    let waiting = bench.wait(&bench.names.retry_10s, 2).await;
    for record in &waiting {
        assert_eq!(record.headers.get_text(headers::REASON), Some("unknown_tenant"));
    }
    assert!(bench.read(&bench.names.dead_letter).await.is_empty(), "nobody is judged so early");
    bench.tell("late-one", TenantState::Active).await;
    // Later: no tier waits.
    bench.clock.ahead(660);
    lanes.push(bench.retry());
    let output = bench.wait(&bench.names.output, 1).await.remove(0);
    assert_eq!(output.headers.get_text(headers::TENANT), Some("late-one"));
    let dead = bench.wait(&bench.names.dead_letter, 1).await.remove(0);
    let text = |name| dead.headers.get_text(name).unwrap();
    assert_eq!((text(headers::TENANT), text(headers::REASON)), ("nobody", "unknown_tenant"));
    assert_eq!(text(headers::ORIGIN_TOPIC), bench.names.input);
    assert_eq!(bench.read(&bench.names.output).await.len(), 1);
    bench.end(lanes).await;
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_kills_each_worker_is_given_up_on_the_retry_lane_too() {
    let bench = Bench::new().await;
    let app = App::new();
    let topic = &bench.names.retry_10s;
    for n in [1, 2] {
        let mut record = OutRecord::for_topic(topic.as_str(), app.report(n, 2));
        for (name, value) in [
            (headers::TENANT, "acme"),
            (headers::ORIGIN_TOPIC, "first"),
            (headers::ORIGIN_PARTITION, "1"),
            (headers::ORIGIN_OFFSET, "7"),
        ] {
            record.headers.push(name, value);
        }
        bench.producer.send_record(&record).await.unwrap();
    }
    // What five workers leave that died at the first record.
    let group = format!("{}unslide.{}", bench.settings.topic_prefix, crate::lanes::retry::RETRY_LANE);
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &bench.settings.bootstrap)
        .set("group.id", group)
        .create()
        .unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic, 0, Offset::Offset(0)).unwrap();
    offsets.find_partition(topic, 0).unwrap().set_metadata("attempt=5 alone=50");
    tokio::task::spawn_blocking(move || consumer.commit(&offsets, CommitMode::Sync)).await.unwrap().unwrap();

    bench.clock.ahead(60);
    let lane = bench.retry();
    let dead = bench.wait(&bench.names.dead_letter, 1).await.remove(0);
    let text = |name| dead.headers.get_text(name).unwrap();
    assert_eq!((text(headers::REASON), text(headers::TENANT)), ("kills_worker", "acme"));
    assert_eq!((text(headers::ORIGIN_TOPIC), text(headers::ORIGIN_OFFSET)), ("first", "7"));
    assert_eq!(dead.value.as_deref(), Some(&app.report(1, 2)[..]));
    let output = bench.wait(&bench.names.output, 1).await.remove(0);
    assert_eq!(output.headers.get_text(headers::SOURCE_OFFSET), Some("1"), "the next one goes on");
    bench.end(vec![lane]).await;
}

/// Proves: bounded-input
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_large_once_unpacked_stops_no_partition() {
    let bench = Bench::with(Wishes { record_bytes: 1 << 20, input_partitions: 1, ..Wishes::default() }).await;
    let app = App::new();
    // Compressed it is short, so the broker takes it. No topic takes what it is then.
    let spaces = vec![b' '; 12 << 20];
    bench.input(Some("acme"), spaces.clone()).await;
    bench.input(Some("nobody"), spaces.clone()).await;
    bench.input(None, spaces).await;
    bench.input(Some("acme"), app.report(1, 2)).await;
    let lane = bench.live();
    assert_eq!(bench.wait(&bench.names.output, 1).await.len(), 1, "the record behind them");
    let dead = bench.wait(&bench.names.dead_letter, 3).await;
    let mut reasons: Vec<_> = dead.iter().map(|r| r.headers.get_text(headers::REASON).unwrap()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["no_tenant", "too_large", "unknown_tenant"]);
    assert!(dead.iter().all(|r| r.value.is_none()));
    assert!(dead.iter().all(|r| r.headers.get_text(headers::VALUE_BYTES) == Some("12582912")));
    assert!(dead.iter().all(|r| r.headers.get_text(headers::DETAIL).unwrap().ends_with("and is not kept")));
    assert!(dead.iter().all(|r| r.headers.get(headers::SOURCE_OFFSET).is_some()));
    bench.end(vec![lane]).await;
}
