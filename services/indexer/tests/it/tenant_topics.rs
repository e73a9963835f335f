//! Output topics of single tenants.

use crate::world::{World, acme, report};
use unslide_proto::headers;
use unslide_store::positions;
use unslide_stream::{OutRecord, admin};

impl World {
    /// Writes report `n` to the tenant's own topic, under whatever tenant's name.
    async fn send_own(&self, n: u8, says: &'static str) {
        let topic = self.topics().tenant_output(&acme());
        let record = OutRecord::for_topic(topic, report(n, 1, None)).header(headers::TENANT, says);
        self.producer.send_record(&record).await.unwrap();
    }
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenants_topic_is_found_while_running_and_read_on_after_a_restart() {
    let world = World::new().await;
    let running = world.start();
    world.send(1, 1, None).await;
    world.until("SELECT count(*) FROM reports", 1).await;
    admin::create_tenant_topics(&world.kafka, &acme()).await.unwrap();
    // Written before anybody can have found the topic.
    for n in 2..=20 {
        world.send_own(n, "acme").await;
    }
    world.until("SELECT count(*) FROM reports", 20).await;
    // Nobody else's report is taken from there, and the shared topic is read on.
    world.send_own(21, "other").await;
    world
        .until("SELECT count(*) FROM dead_letters WHERE stage = 'read' AND reason = 'tenant_mismatch'", 1)
        .await;
    world.send(22, 1, None).await;
    world.until("SELECT count(*) FROM reports", 21).await;
    running.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM partition_leases").await, 0);

    for n in 23..=30 {
        world.send_own(n, "acme").await;
    }
    let running = world.start();
    world.until("SELECT count(*) FROM reports", 29).await;
    running.until_counter(r#"unslide_indexer_records_total{kind="reports""#, 8).await;
    running.stop().await;
    world.end().await;
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_with_one_tenants_topic_hinders_nobody_else() {
    let world = World::new().await;
    admin::create_tenant_topics(&world.kafka, &acme()).await.unwrap();
    let running = world.start();
    world.send_own(1, "acme").await;
    world.until("SELECT count(*) FROM reports", 1).await;
    running.stop().await;
    let topic = world.topics().tenant_output(&acme());
    let good = positions::read_positions(&world.store, &topic).await.unwrap();
    let mut beyond = good[0].clone();
    beyond.next_offset = 1_000_000;
    positions::reset_position(&world.store, &beyond).await.unwrap();
    let running = world.start();
    running.until_unready("1 topics of single tenants are not read").await;
    world.send(2, 1, None).await;
    world.until("SELECT count(*) FROM reports", 2).await;
    positions::reset_position(&world.store, &good[0]).await.unwrap();
    running.until_ready().await;
    world.send_own(3, "acme").await;
    world.until("SELECT count(*) FROM reports", 3).await;
    running.stop().await;
    world.end().await;
}
