//! A record that kills its worker each time, alone and beside others that do not.

use super::*;

/// Workers die one after the other at the same record, each when it is to be committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_kills_each_worker_is_given_up() {
    let bench = Bench::new().await;
    bench.input(["deadly".to_owned()]).await;
    let deadly = Arc::new(AtomicBool::new(true));
    let mut deaths = 0;
    let lane = loop {
        // Five deaths are enough. A death with a note that came too late costs one more.
        assert!(deaths < 12, "the record is not given up");
        let copier = bench.copier();
        let (trying, kills) = (Arc::clone(&copier), Arc::clone(&deadly));
        // What is given up is not prepared, and its dead letter kills nobody.
        let failpoint: Failpoint =
            Arc::new(move || kills.load(Ordering::SeqCst) && !trying.prepared.lock().is_empty());
        let tune = move |engine: &mut Engine<Copier>| engine.producer.before_commit = Some(failpoint);
        let mut lane =
            Lane::start_with(&bench.settings, bench.config("w"), copier, Arc::new(Unobserved), tune).unwrap();
        let status = until(&lane, |s| s.ended || s.records == 1).await;
        if status.records == 1 {
            break lane;
        }
        lane.wait_for_end().await.unwrap();
        deaths += 1;
    };
    assert!(deaths >= 5, "the record was given up after {deaths} deaths");
    let dead = bench.letters(1).await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].headers.get_text("reason"), Some("kills_worker"));
    assert_eq!(dead[0].value.as_deref(), Some(&b"deadly"[..]));
    // The next record is processed as ever.
    deadly.store(false, Ordering::SeqCst);
    bench.input(["harmless".to_owned()]).await;
    assert_eq!(bench.outputs(1).await.len(), 1);
    stop(lane).await;
    bench.done().await;
}

/// Workers die one after the other at a record, each while it commits what came just before. Which
/// partition comes first is the client's choice, and stays so.
/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_kills_its_worker_takes_no_other_with_it() {
    tokio::join!(beside_others(0), beside_others(1), beside_others(2), beside_others(3));
}

async fn beside_others(deadly: i32) {
    let bench = Bench::new().await;
    for partition in (0..4).filter(|partition| *partition != deadly) {
        bench.input_at(partition, [format!("harmless {partition}")]);
    }
    // So many behind it that a batch is always due.
    let behind = (0..60).map(|n| format!("behind {n}"));
    bench.input_at(deadly, std::iter::once("kills".to_owned()).chain(behind));
    let mut letters = Vec::new();
    for _ in 0..12 {
        let copier = bench.copier();
        let mut dead = copier.dead.subscribe();
        let dying = copier.dead.subscribe();
        // A commit takes its time; what dies with the process meanwhile was not committed.
        let failpoint = move || {
            (0..20).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                *dying.borrow()
            })
        };
        // Whoever comes next has its name and fences it off.
        let _ = bench.start_copier("w", copier, Arc::new(failpoint));
        for _ in 0..1_200 {
            if *dead.borrow_and_update() {
                break;
            }
            letters = bench.read(&bench.settings.topic_names().dead_letter).await;
            if !letters.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if !letters.is_empty() {
            break;
        }
    }
    let told: Vec<_> =
        letters.iter().map(|letter| (letter.headers.get_text("reason"), letter.value.as_deref())).collect();
    assert_eq!(told, [(Some("kills_worker"), Some(&b"kills"[..]))]);
    let lane = bench.start("w", &bench.copier());
    assert_once(&bench.outputs(63).await, 63);
    stop(lane).await;
    bench.done().await;
}

/// Three workers died with a batch of several partitions. One of them has only this record, which is done;
/// its further records would go one a transaction, and none comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_without_records_keeps_no_other_in_single_steps() {
    let bench = Bench::new().await;
    bench.input_at(1, ["quiet".to_owned()]);
    note_attempts(&bench.settings, 1, "attempt=2");
    let copier = bench.copier();
    let status: Arc<std::sync::OnceLock<watch::Receiver<LaneStatus>>> = Arc::default();
    let overlapped = Arc::new(AtomicBool::new(false));
    let (seen, prepared, told) = (status.clone(), copier.clone(), overlapped.clone());
    // While a batch is written, is there one behind it that is being prepared?
    let failpoint: Failpoint = Arc::new(move || {
        let committed = seen.get().map_or(0, |status| status.borrow().records);
        for _ in 0..50 {
            if committed > 0 && prepared.prepared.lock().len() as u64 > committed + 20 {
                told.store(true, Ordering::SeqCst);
            }
            if committed == 0 || told.load(Ordering::SeqCst) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    });
    let tune = move |engine: &mut Engine<Copier>| engine.producer.before_commit = Some(failpoint);
    let lane = Lane::start_with(&bench.settings, bench.config("w"), copier, Arc::new(Unobserved), tune);
    let lane = lane.unwrap();
    status.set(lane.status()).unwrap();
    until(&lane, |s| s.records == 1).await;
    assert_eq!(super::held::committed(&bench.settings, 1).1, "attempt=0 alone=19");
    bench.input_at(0, numbers(0..400));
    until(&lane, |s| s.records == 401).await;
    assert!(overlapped.load(Ordering::SeqCst), "each batch was prepared after the one before it was written");
    stop(lane).await;
    bench.done().await;
}

/// What workers leave that died with the first record of a partition.
fn note_attempts(settings: &Settings, partition: i32, metadata: &str) {
    use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
    use rdkafka::{Offset, TopicPartitionList};
    let input = settings.topic_names().input;
    let group = unslide_proto::lanes::consumer_group(&settings.topic_prefix, "live");
    let mut config = settings.consumer_config();
    let consumer: BaseConsumer = config.set("group.id", group).create().unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(&input, partition, Offset::Offset(0)).unwrap();
    offsets.find_partition(&input, partition).unwrap().set_metadata(metadata);
    consumer.commit(&offsets, CommitMode::Sync).unwrap();
}
