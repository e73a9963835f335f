//! What a replay puts off.
//! Proves: replay

use crate::indexer_fixture::{World, acme};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::time::Duration;
use unslide_model::{ContentHash, DebugId, Quality};
use unslide_store::slots;
use unslide_testkit::servers;

impl World {
    /// Symbols for the image of every report.
    async fn publish(&self) {
        let mut tx = self.store.tenant(&acme()).await.unwrap();
        let new = slots::PublishedSymbols {
            debug_id: DebugId([0x11; 16]),
            quality: Quality::Dwarf,
            content_hash: ContentHash([1; 32]),
            symcache_version: 1,
            generation: 1,
        };
        slots::publish_symbols(&mut tx, &new).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Waits until maintenance has gone through once from beginning to end.
    async fn round_of_maintenance(&self) {
        for _ in 0..2 {
            self.execute(
                "INSERT INTO report_duplicates (tenant, report_id, variant, origin_topic, origin_partition, origin_offset,
                                                origin_index, seen_at, received_at)
                 VALUES ('acme', gen_random_uuid(), 0, 'in', 0, 0, 0, now(), now() - interval '20 years')",
            )
            .await;
            self.wait_for_number(
                "SELECT count(*) FROM report_duplicates WHERE received_at < now() - interval '19 years'",
                0,
            )
            .await;
        }
    }
}

/// Another indexer has the half of the partitions, and is behind: what it has still to store may be the
/// answer to what was put off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_put_off_waits_for_the_partitions_of_other_indexers_too() {
    let world = World::new().await;
    world.publish().await;
    for n in 1..=12 {
        world.send(n, 1, None).await;
    }
    for n in 1..=11 {
        world.send(n, 2, Some(1)).await;
    }
    let topic = world.topics().output;
    let facts = unslide_stream::topic_facts(&world.kafka, &topic).await.unwrap();
    assert!(facts.partitions.iter().all(|held| held.end > 0), "each partition has something: {facts:?}");
    world
        .execute(&format!(
            "INSERT INTO partition_leases (topic, partition, owner, lease_until)
             SELECT '{topic}', p, 'another', now() + interval '1 day' FROM generate_series(-1, 1) AS p"
        ))
        .await;
    let running = world.start();
    for held in &facts.partitions[2..] {
        let at = format!(
            "SELECT next_offset FROM positions WHERE topic = '{topic}' AND partition = {}",
            held.partition
        );
        world.wait_for_number(&format!("SELECT coalesce(({at}), 0)"), held.end).await;
    }
    // As if the other one had stored this much, and no second revision.
    world.execute("UPDATE report_keys SET ask_pending = true").await;
    world.round_of_maintenance().await;
    let made = "SELECT count(*) FROM outbox WHERE kind = 'resymbolicate'";
    assert_eq!(world.number(made).await, 0);
    assert!(world.number("SELECT count(*) FROM report_keys WHERE ask_pending").await > 0);
    // It is gone, and this one goes on with what it had.
    world.execute("DELETE FROM partition_leases WHERE owner = 'another'").await;
    world.wait_for_number("SELECT count(*) FROM reports", 12).await;
    world.wait_for_number("SELECT count(*) FROM report_keys WHERE ask_pending", 0).await;
    assert_eq!(world.number(made).await, 1);
    running.stop().await;
    world.end().await;
}

/// Outputs are written in transactions. Their ends take offsets: without these the position of an idle
/// partition would never reach the end that another indexer waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_move_over_what_is_no_record() {
    let world = World::new().await;
    let topic = world.topics().output;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers::kafka()).set("transactional.id", format!("{topic}.test"));
    tokio::task::spawn_blocking(move || {
        let producer: BaseProducer = config.create().unwrap();
        let within = Duration::from_secs(300);
        producer.init_transactions(within).unwrap();
        producer.begin_transaction().unwrap();
        producer.send(BaseRecord::<str, str>::to(&topic).partition(1).payload("{}")).unwrap();
        producer.commit_transaction(within).unwrap();
    })
    .await
    .unwrap();
    let running = world.start();
    // One record and the end of its transaction, which is written after the commit was answered.
    world
        .wait_for_number(
            "SELECT coalesce(max(next_offset), 0) FROM positions WHERE partition = 1 AND topic LIKE '%symbolicated'",
            2,
        )
        .await;
    running.stop().await;
    world.end().await;
}
