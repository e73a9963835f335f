//! Markers of transactions at the end of the input.

use super::*;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

/// Ends one transaction with a record and one that is aborted on the first partition of the input.
fn write_in_transactions(settings: &Settings) -> rdkafka::error::KafkaResult<()> {
    let topic = settings.topic_names().input;
    let mut config = settings.producer_config();
    config.set("transactional.id", format!("{topic}.t"));
    let producer: BaseProducer = config.create()?;
    producer.init_transactions(ANSWER)?;
    let send = |text: &str| {
        let record: BaseRecord<'_, str, str> = BaseRecord::to(&topic).partition(0).key(text).payload(text);
        producer.send(record).map_err(|(e, _)| e)
    };
    producer.begin_transaction()?;
    send("0")?;
    producer.commit_transaction(ANSWER)?;
    producer.begin_transaction()?;
    send("never")?;
    producer.flush(ANSWER)?;
    producer.abort_transaction(ANSWER)
}

/// Without that, the markers are deleted by retention some day, and look like records that nobody read.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_rests_commits_the_offsets_behind_the_last_markers() {
    let bench = Bench::new().await;
    let lane = bench.start("w", &bench.copier());
    let settings = bench.settings.clone();
    tokio::task::spawn_blocking(move || write_in_transactions(&settings)).await.unwrap().unwrap();
    assert_once(&bench.outputs(1).await, 1);
    let (settings, input) = (bench.settings.clone(), bench.settings.topic_names().input);
    let reached = tokio::task::spawn_blocking(move || {
        let scanner = scan::Scanner::open(&settings).unwrap();
        let group = unslide_proto::lanes::consumer_group(&settings.topic_prefix, "live");
        // The record, its marker, the aborted record and the marker of that.
        let (end, until) = (4, Instant::now() + ANSWER);
        loop {
            let offsets = scanner.find_committed_offsets(&group, &[(input.clone(), 0)]).unwrap();
            let at = offsets.get(&(input.clone(), 0)).copied();
            if at == Some(end) || Instant::now() >= until {
                return (at, scanner.log_end(&input, 0).unwrap());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    assert_eq!(reached.await.unwrap(), (Some(4), 4));
    // The next record is read all the same.
    bench.input_at(0, numbers(1..2));
    assert_once(&bench.outputs(2).await, 2);
    stop(lane).await;
    bench.done().await;
}
