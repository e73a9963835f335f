//! Workers that come and go.

use super::*;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};

/// The members of the lane's group; `None` while it is being divided.
fn members(settings: &Settings) -> Option<usize> {
    let group = format!("{}unslide.live", settings.topic_prefix);
    let asker: BaseConsumer = settings.base_config().create().unwrap();
    let groups = asker.fetch_group_list(Some(&group), ANSWER).unwrap();
    let found = groups.groups().iter().find(|g| g.name() == group);
    found.map_or(Some(0), |g| matches!(g.state(), "Stable" | "Empty").then(|| g.members().len()))
}

/// Waits until the lane's group has `wanted` members, and for less than a session.
async fn until_members(settings: &Settings, wanted: usize, why: &str) {
    let mut found = members(settings);
    for _ in 0..900 {
        if found == Some(wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        found = members(settings);
    }
    panic!("{found:?} members and not {wanted}: {why}");
}

/// While another worker joins, the first one is in the middle of a batch with records of every
/// partition: what it keeps it finishes, and reads nothing of it again.
/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_stay_go_on_while_others_move() {
    let bench = Bench::new().await;
    for partition in 0..4 {
        bench.input_at(partition, numbers(0..30));
    }
    let (first, second) = (bench.copier(), bench.copier());
    first.open.send_replace(false);
    let a = bench.start("a", &first);
    until(&a, |s| s.partitions == 4).await;
    while first.prepared.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let b = bench.start("b", &second);
    until(&b, |s| s.partitions == 2).await;
    until(&a, |s| s.partitions == 2).await;
    first.open.send_replace(true);
    assert_once(&bench.outputs(120).await, 120);
    let moved: BTreeSet<i32> = second.prepared.lock().iter().map(|at| at.partition).collect();
    assert_eq!(moved.len(), 2);
    let mut stayed: Vec<RecordRef> =
        first.prepared.lock().iter().filter(|at| !moved.contains(&at.partition)).cloned().collect();
    stayed.sort();
    let asked = stayed.len();
    stayed.dedup();
    assert_eq!((asked, stayed.len()), (60, 60), "what stayed was prepared once");
    stop(a).await;
    stop(b).await;
    bench.done().await;
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_gives_its_place_up() {
    let bench = Bench::new().await;
    let mut config = bench.config("w");
    // The place goes only because the worker leaves.
    config.timings.session = Duration::from_secs(120);
    config.timings.poll_interval = Duration::from_secs(120);
    let copier = bench.copier();
    let lane = Lane::start(&bench.settings, config, copier, Arc::new(Unobserved)).unwrap();
    until(&lane, |s| s.partitions == 4).await;
    bench.input(numbers(0..50)).await;
    until(&lane, |s| s.records > 0).await;
    stop(lane).await;
    until_members(&bench.settings, 0, "the worker has left").await;
    let lane = bench.start("other", &bench.copier());
    assert_once(&bench.outputs(50).await, 50);
    stop(lane).await;
    bench.done().await;
}

/// The first worker dies after the group asked it to give up two of its partitions, and before it did. When it is
/// there again it has none to give up.
/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_while_partitions_move_leaves_none_behind() {
    let bench = Bench::new().await;
    let config = bench.config("a");
    let client =
        config.consumer_config(&bench.settings, &format!("{}unslide.live.a", bench.settings.topic_prefix));
    let dying: BaseConsumer = client.create().unwrap();
    dying.subscribe(&config.list_subscriptions()).unwrap();
    let dying = tokio::task::spawn_blocking(move || {
        while dying.assignment().unwrap().count() < 4 {
            drop(dying.poll(Duration::from_millis(100)));
        }
        dying
    });
    // It polls no more: what it is to give up stays with it.
    let dying = dying.await.unwrap();
    let copier = bench.copier();
    let b = bench.start("b", &copier);
    until_members(&bench.settings, 2, "the first has to give two up").await;
    assert_eq!(b.status().borrow().partitions, 0);
    let a = bench.start("a", &bench.copier());
    until(&b, |s| s.partitions == 2).await;
    until(&a, |s| s.partitions == 2).await;
    bench.input(numbers(0..100)).await;
    assert_once(&bench.outputs(100).await, 100);
    stop(a).await;
    stop(b).await;
    // It was fenced off, and has nothing to say any more.
    std::mem::forget(dying);
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_learns_its_share_of_each_topic() {
    let bench = Bench::new().await;
    let (first, second) = (bench.copier(), bench.copier());
    let input: Arc<str> = bench.settings.topic_names().input.into();
    let told = async |copier: &Copier, wanted: usize| {
        let fits =
            |share: &TopicShare| share.topic == input && share.partitions.len() == wanted && share.total == 4;
        for _ in 0..3_000 {
            if matches!(&copier.shares.lock()[..], [share] if fits(share)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{:?} and not {wanted}", copier.shares.lock());
    };
    let a = bench.start("a", &first);
    told(&first, 4).await;
    let b = bench.start("b", &second);
    told(&second, 2).await;
    told(&first, 2).await;
    stop(a).await;
    stop(b).await;
    bench.done().await;
}

/// The first worker halts in its transaction, before its offsets are part of it, for so long that its
/// group gives its partitions to the second. When it goes on it may commit nothing of them.
/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_partitions_inside_a_transaction_aborts_it() {
    let bench = Bench::new().await;
    bench.input(numbers(0..100)).await;
    let (reached, at_point) = std::sync::mpsc::channel();
    let (wake, asleep) = std::sync::mpsc::channel::<()>();
    let asleep = Mutex::new(asleep);
    let halt: Failpoint = Arc::new(move || {
        let _ = reached.send(());
        // Only the first time: afterwards nobody is there to be waited for.
        let _ = asleep.lock().recv();
        false
    });
    let mut config = bench.config("a");
    // The shortest that the broker takes.
    config.timings.session = Duration::from_secs(6);
    config.timings.poll_interval = Duration::from_secs(6);
    // It is the worker that ends it, and not the broker.
    config.timings.transaction = Duration::from_secs(120);
    let tune = move |engine: &mut Engine<Copier>| engine.producer.before_offsets = Some(halt);
    let first = bench.copier();
    let a = Lane::start_with(&bench.settings, config, first.clone(), Arc::new(Unobserved), tune).unwrap();
    tokio::task::spawn_blocking(move || at_point.recv().unwrap()).await.unwrap();
    let second = bench.copier();
    let b = bench.start("b", &second);
    until(&b, |s| s.partitions == 4).await;
    // Once awake, the first worker takes its share again and would do what is left there. Readers see the
    // outputs only later: the open transaction holds back what lies behind it.
    until(&b, |s| s.records == 100).await;
    drop(wake);
    assert_once(&bench.outputs(100).await, 100);
    assert_eq!(second.prepared.lock().len(), 100, "nothing of the first worker's was committed");
    until(&a, |s| s.partitions == 2).await;
    bench.input(numbers(100..200)).await;
    assert_once(&bench.outputs(200).await, 200);
    stop(a).await;
    stop(b).await;
    bench.done().await;
}

/// The first batch of a partition was committed, and the answer was lost. The partition is given up
/// before a new producer has found that out.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_after_a_commit_of_unknown_end_sets_nothing_back() {
    let bench = Bench::new().await;
    bench.input_at(0, numbers(0..20));
    let lost = Arc::new(AtomicBool::new(false));
    let (losing, starting) = (lost.clone(), lost.clone());
    let (reached, at_point) = std::sync::mpsc::channel();
    let tune = move |engine: &mut Engine<Copier>| {
        engine.faults.unanswered = Some(Arc::new(move || {
            losing.store(true, Ordering::SeqCst);
            let _ = reached.send(());
            true
        }));
        engine.faults.no_producer = Some(Arc::new(move || starting.load(Ordering::SeqCst)));
    };
    let copier = bench.copier();
    let lane =
        Lane::start_with(&bench.settings, bench.config("a"), copier, Arc::new(Unobserved), tune).unwrap();
    tokio::task::spawn_blocking(move || at_point.recv().unwrap()).await.unwrap();
    stop(lane).await;
    let lane = bench.start("b", &bench.copier());
    assert_once(&bench.outputs(20).await, 20);
    stop(lane).await;
    bench.done().await;
}

/// Kafka takes connections and says nothing: a stop is a stop all the same.
/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_stops_though_kafka_never_answers() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings::single_broker(silent.local_addr().unwrap().to_string());
    let config = LaneConfig {
        name: "live".into(),
        worker: "w".into(),
        topics: vec![settings.topic_names().input],
        pattern: None,
        batch: BatchLimits { records: 20, bytes: 1 << 20, wait: Duration::from_millis(10) },
        timings: Timings::default(),
        suspects: Suspects::default(),
    };
    let copier = Copier::new(settings.topic_names(), Duration::ZERO);
    let lane = Lane::start(&settings, config, copier, Arc::new(Unobserved)).unwrap();
    let mut connections = Vec::new();
    for _ in 0..2 {
        connections.push(silent.accept().await.unwrap());
    }
    stop(lane).await;
}

/// An operator adds partitions while the lane reads: their records are read from the first.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_are_added_are_read_without_a_restart() {
    let mut bench = Bench::new().await;
    bench.settings.topic_refresh_milliseconds = 500;
    let lane = bench.start("w", &bench.copier());
    until(&lane, |s| s.partitions == 4).await;
    let input = bench.settings.topic_names().input;
    let client: AdminClient<DefaultClientContext> = bench.settings.base_config().create().unwrap();
    let added =
        client.create_partitions(&[NewPartitions::new(&input, 6)], &AdminOptions::new()).await.unwrap();
    assert!(added.iter().all(Result::is_ok), "{added:?}");
    until(&lane, |s| s.partitions == 6).await;
    bench.input_at(5, numbers(0..10));
    assert_once(&bench.outputs(10).await, 10);
    stop(lane).await;
    bench.done().await;
}
