//! Records that the indexer skips, and their replay.
//! Proves: replay

use crate::world::{World, acme};
use unslide_store::dead_letters::{self, DeadLetter, DeadLetterFilter, DeadLetterReach};
use unslide_store::positions;

const REFUSE: &str = "ALTER TABLE report_keys ADD CONSTRAINT no_poison CHECK (report_id <> '05050505-0505-0505-0505-050505050505')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skipped_record_is_stored_by_a_replay_unless_its_topic_has_forgotten_it() {
    let world = World::new().await;
    world.execute(REFUSE).await;
    for n in 1..=10 {
        world.send(n, 1, None).await;
    }
    world.send(5, 2, None).await;
    let running = world.start();
    world.until("SELECT count(*) FROM reports", 9).await;
    world.until("SELECT count(*) FROM dead_letters WHERE stage = 'store' AND tenant = 'acme'", 2).await;
    running.until_counter("unslide_indexer_dead_letters_total", 2).await;
    running.until_ready().await;

    let listed = async || {
        let mut tx = world.store.tenant(&acme()).await.unwrap();
        let (own, all) = (DeadLetterReach::Own, DeadLetterFilter::default());
        dead_letters::list_dead_letters(&mut tx, own, &all, None, 10).await.unwrap()
    };
    let ask = async |letter: &DeadLetter| {
        let mut tx = world.store.tenant(&acme()).await.unwrap();
        dead_letters::record_replay(&mut tx, DeadLetterReach::Own, &letter.id, "me", None).await.unwrap();
        tx.commit().await.unwrap();
    };
    let ended = async |status: &str, records| {
        let query = format!("SELECT count(*) FROM dead_letters WHERE status = '{status}'");
        world.until(&query, records).await;
    };
    let [second, first] = <[_; 2]>::try_from(listed().await).unwrap();
    assert_eq!((first.topic.as_str(), first.replays), (world.topics().output.as_str(), 0));
    ask(&first).await;
    ended("failed", 1).await;
    world.execute("ALTER TABLE report_keys DROP CONSTRAINT no_poison").await;
    ask(&first).await;
    ended("replayed", 1).await;
    world.until("SELECT count(*) FROM reports", 10).await;
    let places = positions::read_positions(&world.store, &first.topic).await.unwrap();
    world.delete_before(&second.topic, second.id.partition, second.id.offset + 1).await;
    ask(&second).await;
    ended("past_retention", 1).await;
    assert_eq!(
        positions::read_positions(&world.store, &first.topic).await.unwrap(),
        places,
        "no position moved"
    );
    assert_eq!(world.number("SELECT count(*) FROM reports").await, 10);
    running.stop().await;
    world.end().await;
}

/// Another reader would wait for the same rows, and both would run out of time.
/// Proves: outages
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_keeps_its_partitions_while_a_statement_takes_longer_than_its_lease() {
    let world = World::new().await;
    let running = world.start();
    running.until_ready().await;
    let closed = world.close("reports").await;
    world.send(1, 1, None).await;
    let waits = "SELECT (count(*) > 0)::integer::bigint FROM pg_locks WHERE NOT granted AND relation = 'reports'::regclass
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    world.until(waits, 1).await;
    let leases = format!("partition_leases WHERE partition >= 0 AND topic = '{}'", world.topics().output);
    let until = format!("SELECT (extract(epoch FROM max(lease_until)) * 1000)::bigint FROM {leases}");
    let first = world.number(&until).await;
    let longer = format!(
        "SELECT (min(lease_until) > to_timestamp({first} / 1000.0) + interval '4 seconds')::integer::bigint FROM {leases}"
    );
    world.until(&longer, 1).await;
    World::open(closed).await;
    world.until("SELECT count(*) FROM reports", 1).await;
    running.stop().await;
    world.end().await;
}
