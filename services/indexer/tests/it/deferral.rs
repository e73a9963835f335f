//! A tenant that uses more than its share is stored later, and nothing of it is lost.

use crate::world::{World, acme, report};
use sqlx::Connection;
use unslide_indexer::Settings;
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_store::positions;
use unslide_stream::OutRecord;

/// Each report of `acme` takes the database some time, and none is stored while somebody holds the lock 77.
const SLOW: &str = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         PERFORM pg_advisory_xact_lock_shared(77), pg_sleep(0.05);
         RETURN NEW;
     END $$;
     CREATE TRIGGER slow BEFORE INSERT ON reports FOR EACH ROW WHEN (NEW.tenant = 'acme') EXECUTE FUNCTION slow()";
const REPORTS: u8 = 120;

impl World {
    async fn make_umbrella(&self) {
        self.make_tenant(&TenantId::new("umbrella").unwrap()).await;
    }

    /// Sends all to one partition.
    async fn send_to_one(&self, tenant: &'static str, n: u8, revision: u32) {
        let record = OutRecord::for_topic(self.topics().output, report(n, revision, None))
            .key("one")
            .header(headers::TENANT, tenant);
        self.producer.send_record(&record).await.unwrap();
    }

    async fn send_flood(&self) {
        for n in 1..=REPORTS {
            self.send_to_one("acme", n, 1).await;
        }
    }

    async fn until_some_are_deferred(&self) {
        self.until("SELECT (count(*) > 0)::integer::bigint FROM deferred_ranges WHERE tenant = 'acme'", 1)
            .await;
    }
}

fn small_batches() -> Settings {
    Settings { batch_records: 5, ..Settings::default() }
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neighbour_of_a_flood_is_stored_before_the_flood_and_none_of_it_is_lost() {
    let world = World::new().await;
    world.make_umbrella().await;
    world.execute(SLOW).await;
    world.send_flood().await;
    let running = world.start_with(small_batches());
    world.until_some_are_deferred().await;
    let mut held = world.connect().await;
    sqlx::raw_sql("SELECT pg_advisory_lock(77)").execute(&mut held).await.unwrap();
    // What comes now of the flood's tenant waits behind it, a better revision too.
    world.send_to_one("acme", 1, 2).await;
    world.send_to_one("umbrella", 1, 1).await;
    world.until("SELECT count(*) FROM reports WHERE tenant = 'umbrella'", 1).await;
    let stored = world.number("SELECT count(*) FROM reports WHERE tenant = 'acme'").await;
    assert!(stored < i64::from(REPORTS), "{stored}");
    let end = "SELECT max(next_offset) = (SELECT max(to_offset) + 1 FROM deferred_ranges) FROM positions
               WHERE topic LIKE '%symbolicated'";
    world.until(&format!("SELECT ({end})::integer::bigint"), 1).await;
    held.close().await.unwrap();
    world.until("SELECT count(*) FROM reports WHERE tenant = 'acme'", REPORTS.into()).await;
    world.until("SELECT count(*) FROM deferred_ranges", 0).await;
    world.until_caught_up().await;
    assert!(running.counter("unslide_indexer_deferred_records_total") > 0);
    let revised = "SELECT count(*) FROM report_keys WHERE tenant = 'acme' AND latest_revision = 2";
    assert_eq!(world.number(revised).await, 1);
    assert_eq!(world.number("SELECT sum(reports)::bigint FROM app_days").await, i64::from(REPORTS) + 1);
    running.until_ready().await;
    running.stop().await;
    // Read once more from the start, with the same flood, all stays as it is.
    let before = world.dump().await;
    for mut position in positions::read_positions(&world.store, &world.topics().output).await.unwrap() {
        position.next_offset = 0;
        positions::reset_position(&world.store, &position).await.unwrap();
    }
    let running = world.start_with(small_batches());
    world.until_caught_up().await;
    world.until("SELECT count(*) FROM deferred_ranges", 0).await;
    running.stop().await;
    assert_eq!(world.dump().await, before);
    world.end().await;
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_indexer_deferred_is_stored_by_the_next_one() {
    let world = World::new().await;
    world.execute(SLOW).await;
    world.send_flood().await;
    let running = world.start_with(small_batches());
    world.until_some_are_deferred().await;
    running.stop().await;
    let stored = world.number("SELECT count(*) FROM reports").await;
    assert!(stored < i64::from(REPORTS), "{stored}");
    world.execute("DROP TRIGGER slow ON reports").await;
    let running = world.start();
    world.until("SELECT count(*) FROM reports", REPORTS.into()).await;
    world.until("SELECT count(*) FROM deferred_ranges", 0).await;
    running.stop().await;
    world.end().await;
}

/// Proves: replay
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_of_a_tenant_that_the_database_has_lost_are_stored_once_it_is_made_again() {
    let world = World::new().await;
    for n in 1..=3 {
        world.send_to_one("umbrella", n, 1).await;
    }
    world.send_to_one("acme", 1, 1).await;
    let running = world.start();
    world.until("SELECT count(*) FROM reports WHERE tenant = 'acme'", 1).await;
    running.until_ready().await;
    assert_eq!(world.number("SELECT sum(records)::bigint FROM deferred_ranges").await, 3);
    assert_eq!(world.number("SELECT count(*) FROM dead_letters WHERE stage = 'read'").await, 0);
    world.make_umbrella().await;
    world.until("SELECT count(*) FROM reports WHERE tenant = 'umbrella'", 3).await;
    world.until("SELECT count(*) FROM deferred_ranges", 0).await;
    running.stop().await;
    world.end().await;
}

/// Proves: replay
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deferred_records_that_retention_deleted_are_noted_and_the_others_are_stored() {
    let world = World::new().await;
    for n in 1..=3 {
        world.send_to_one("acme", n, 1).await;
    }
    let topic = world.topics().output;
    let facts = unslide_stream::topic_facts(&world.kafka, &topic).await.unwrap();
    let held = *facts.partitions.iter().find(|held| held.end == 3).unwrap();
    let deferred = format!(
        "INSERT INTO positions (topic, partition, topic_id, next_offset, updated_at)
             VALUES ('{topic}', {partition}, '{id}', 3, now());
         INSERT INTO deferred_ranges (tenant, topic, topic_id, partition, from_offset, to_offset, records, oldest_at)
             VALUES ('acme', '{topic}', '{id}', {partition}, 0, 3, 3, now())",
        partition = held.partition,
        id = facts.id
    );
    world.execute(&deferred).await;
    world.delete_before(&topic, held.partition, 2).await;
    let running = world.start();
    world.until("SELECT count(*) FROM deferred_ranges", 0).await;
    let stored = format!("SELECT count(*) FROM reports WHERE tenant = '{}'", acme());
    assert_eq!(world.number(&stored).await, 1);
    let noted = "SELECT count(*) FROM dead_letters WHERE stage = 'read' AND reason = 'past_retention' AND at_offset = 0";
    assert_eq!(world.number(noted).await, 1);
    running.until_counter("unslide_indexer_deferred_lost_total", 1).await;
    running.until_ready().await;
    running.stop().await;
    world.end().await;
}
