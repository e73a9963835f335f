//! Workers that come and go.

use super::*;
use rdkafka::consumer::{BaseConsumer, Consumer};

fn members(settings: &Settings) -> usize {
    let group = format!("{}unslide.live", settings.topic_prefix);
    let asker: BaseConsumer = settings.base().create().unwrap();
    let groups = asker.fetch_group_list(Some(&group), Duration::from_secs(10)).unwrap();
    groups.groups().iter().find(|g| g.name() == group).map_or(0, |g| g.members().len())
}

/// While another worker joins, the first one is in the middle of a batch with records of every
/// partition: what it keeps it finishes, and reads nothing of it again.
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

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_the_place_and_leaving_gives_it_up() {
    let bench = Bench::new().await;
    let lane = bench.start("w", &bench.copier());
    until(&lane, |s| s.partitions == 4).await;
    stop(lane).await;
    assert_eq!(members(&bench.settings), 1, "a restarted worker finds its place");
    let settings = Settings { leave_group_on_stop: true, ..bench.settings.clone() };
    let copier = bench.copier();
    let lane = Lane::start(&settings, bench.config("w"), copier, Arc::new(Unobserved)).unwrap();
    until(&lane, |s| s.partitions == 4).await;
    bench.input(numbers(0..50)).await;
    until(&lane, |s| s.records > 0).await;
    stop(lane).await;
    assert_eq!(members(&settings), 0, "the worker has left");
    let lane = bench.start("other", &bench.copier());
    assert_once(&bench.outputs(50).await, 50);
    stop(lane).await;
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_learns_its_share_of_each_topic() {
    let bench = Bench::new().await;
    let (first, second) = (bench.copier(), bench.copier());
    let input: Arc<str> = bench.settings.topics().input.into();
    let share = |assigned| vec![TopicShare { topic: input.clone(), assigned, total: 4 }];
    let told = async |copier: &Copier, wanted: Vec<TopicShare>| {
        for _ in 0..300 {
            if *copier.shares.lock() == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{:?} and not {wanted:?}", copier.shares.lock());
    };
    let a = bench.start("a", &first);
    told(&first, share(4)).await;
    let b = bench.start("b", &second);
    told(&second, share(2)).await;
    told(&first, share(2)).await;
    stop(a).await;
    stop(b).await;
    bench.done().await;
}
