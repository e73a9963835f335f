//! A tenant that moves between two cells on one Kafka: its records wait, and are stored here or passed on.

use crate::indexer_fixture::{Running, World, acme, report};
use sqlx::Connection;
use time::Duration;
use unslide_model::{ReportId, TenantId};
use unslide_proto::headers;
use unslide_proto::report::Outcome;
use unslide_store::{place, positions};
use unslide_stream::{OutRecord, admin};

/// Each report of `acme` waits for the lock 77 before it is stored.
const HELD: &str = "CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         PERFORM pg_advisory_xact_lock_shared(77);
         RETURN NEW;
     END $$;
     CREATE TRIGGER held BEFORE INSERT ON report_keys FOR EACH ROW WHEN (NEW.tenant = 'acme') EXECUTE FUNCTION held()";
const ACMES: &str = "SELECT count(*) FROM reports WHERE tenant = 'acme'";
const UMBRELLAS: &str = "SELECT count(*) FROM reports WHERE tenant = 'umbrella'";
const WAITING: &str = "SELECT coalesce(sum(records), 0)::bigint FROM deferred_ranges";
const PASSED_ON: &str = "unslide_indexer_passed_on_total";

fn umbrella() -> TenantId {
    TenantId::new("umbrella").unwrap()
}

impl World {
    /// Sends a report to one partition.
    async fn send_of(&self, tenant: &'static str, n: u8) {
        let record = OutRecord::for_topic(self.topics().output, report(n, 1, None))
            .key("one")
            .header(headers::TENANT, tenant);
        self.producer.send_record(&record).await.unwrap();
    }

    async fn freeze(&self, tenant: &TenantId) {
        let mut tx = self.store.tenant(tenant).await.unwrap();
        assert!(place::freeze_tenant(&mut tx, Duration::HOUR).await.unwrap());
        tx.commit().await.unwrap();
    }

    async fn thaw(&self, tenant: &TenantId) {
        let mut tx = self.store.tenant(tenant).await.unwrap();
        place::thaw_tenant(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn set_moved(&self, tenant: &TenantId, prefix: &str) {
        let mut tx = self.store.tenant(tenant).await.unwrap();
        assert!(place::set_moved(&mut tx, prefix).await.unwrap());
        tx.commit().await.unwrap();
    }

    async fn set_arrived(&self, tenant: &TenantId) {
        let mut tx = self.store.tenant(tenant).await.unwrap();
        assert!(place::set_arrived(&mut tx).await.unwrap());
        tx.commit().await.unwrap();
    }

    /// Reads the reports again from the start.
    async fn rewind(&self) {
        for mut position in positions::read_positions(&self.store, &self.topics().output).await.unwrap() {
            position.next_offset = 0;
            positions::reset_position(&self.store, &position).await.unwrap();
        }
    }
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_freeze_in_the_middle_of_a_batch_delays_no_other_tenant_and_loses_nothing() {
    let world = World::new().await;
    world.make_tenant(&umbrella()).await;
    world.execute(HELD).await;
    let mut held = world.connect().await;
    sqlx::raw_sql("SELECT pg_advisory_lock(77)").execute(&mut held).await.unwrap();
    for n in 1..=3 {
        world.send_of("acme", n).await;
        world.send_of("umbrella", n).await;
    }
    let running = world.start();
    // The batch has seen that the tenant is here, and stores the first of its rows.
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    world.wait_for_number(&format!("SELECT least(1, ({waits}))"), 1).await;
    world.freeze(&acme()).await;
    held.close().await.unwrap();
    world.wait_for_number(UMBRELLAS, 3).await;
    world.wait_for_number(WAITING, 3).await;
    assert_eq!(world.number(ACMES).await, 0);
    // What comes later waits behind it, and the others are stored.
    world.send_of("acme", 4).await;
    world.send_of("umbrella", 4).await;
    world.wait_for_number(UMBRELLAS, 4).await;
    world.wait_for_number(WAITING, 4).await;
    assert_eq!(world.number(ACMES).await, 0);
    running.wait_until_ready().await;
    world.thaw(&acme()).await;
    world.wait_for_number(ACMES, 4).await;
    world.wait_for_number(WAITING, 0).await;
    // No batch waits for a move that waits for the writers of the tenant.
    let mut mover = world.connect().await;
    sqlx::raw_sql("SELECT pg_advisory_lock(hashtextextended('tenant acme', 0))")
        .execute(&mut mover)
        .await
        .unwrap();
    world.send_of("acme", 5).await;
    world.send_of("umbrella", 5).await;
    world.wait_for_number(UMBRELLAS, 5).await;
    world.wait_for_number(WAITING, 1).await;
    mover.close().await.unwrap();
    world.wait_for_number(ACMES, 5).await;
    world.wait_for_number(WAITING, 0).await;
    world.wait_until_caught_up().await;
    assert_eq!(world.number("SELECT count(*) FROM dead_letters").await, 0);
    running.stop().await;
    world.end().await;
}

/// Waits until an indexer has passed this many records on.
async fn wait_until_passed(running: &Running, records: u64) {
    running.wait_for_counter(PASSED_ON, records).await;
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_a_tenant_that_moved_are_stored_once_in_the_other_cell() {
    let (here, there) = (World::new().await, World::new().await);
    here.make_tenant(&umbrella()).await;
    there.execute("UPDATE tenants SET place = 'arriving' WHERE slug = 'acme'").await;
    here.freeze(&acme()).await;
    for n in 1..=5 {
        here.send_of("acme", n).await;
    }
    here.send_of("umbrella", 1).await;
    let running = here.start();
    here.wait_for_number(UMBRELLAS, 1).await;
    here.wait_for_number(WAITING, 5).await;
    here.set_moved(&acme(), &there.kafka.topic_prefix).await;
    wait_until_passed(&running, 5).await;
    here.wait_for_number(WAITING, 0).await;
    // There its rows are still being copied.
    let running_there = there.start();
    there.wait_for_number(WAITING, 5).await;
    assert_eq!(there.number(ACMES).await, 0);
    there.set_arrived(&acme()).await;
    there.wait_for_number(ACMES, 5).await;
    there.wait_for_number(WAITING, 0).await;
    // At the end the tenant is deleted here, and late records of each kind are passed on all the same.
    here.execute("UPDATE tenants SET state = 'deleted' WHERE slug = 'acme'").await;
    here.send_of("acme", 6).await;
    here.send_letter("acme", "not_json", Some(b"{")).await;
    here.answer(1, 2, Outcome::Unchanged).await;
    here.send_of("umbrella", 2).await;
    wait_until_passed(&running, 8).await;
    there.wait_for_number(ACMES, 6).await;
    there.wait_for_number("SELECT count(*) FROM dead_letters WHERE tenant = 'acme'", 1).await;
    here.wait_for_number(UMBRELLAS, 2).await;
    here.wait_until_caught_up().await;
    there.wait_until_caught_up().await;
    assert_eq!(here.number("SELECT count(*) FROM dead_letters").await, 0);
    assert_eq!(here.number(ACMES).await, 0);
    // An indexer that died after it had passed records on passes them on again: they are stored once.
    running.kill().await;
    let before = there.dump().await;
    here.rewind().await;
    let running = here.start();
    wait_until_passed(&running, 6).await;
    here.wait_until_caught_up().await;
    here.wait_for_number(WAITING, 0).await;
    there.wait_until_caught_up().await;
    there.wait_for_number(WAITING, 0).await;
    running.stop().await;
    running_there.stop().await;
    assert_eq!(there.dump().await, before);
    assert_eq!(there.number("SELECT sum(reports)::bigint FROM app_days").await, 6);
    here.end().await;
    there.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_the_cell_before_closes_its_request_in_the_next_cell() {
    let (here, there) = (World::new().await, World::new().await);
    there.send(1, 1, None).await;
    let running_there = there.start();
    there.wait_for_number(ACMES, 1).await;
    let id = ReportId([1; 16]);
    there
        .execute(&format!(
            "UPDATE report_keys SET requested_at = now(), asked_at = now(), requested_revision = 2 WHERE report_id = '{id}'"
        ))
        .await;
    here.freeze(&acme()).await;
    here.set_moved(&acme(), &there.kafka.topic_prefix).await;
    let running = here.start();
    let answer = there.build_answer(1, 2, Outcome::Unchanged).await;
    let answer = OutRecord { topic: here.topics().ledger.into(), ..answer };
    here.producer.send_record(&answer).await.unwrap();
    there.wait_for_number("SELECT count(*) FROM report_keys WHERE requested_at IS NOT NULL", 0).await;
    running.stop().await;
    running_there.stop().await;
    here.end().await;
    there.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_wait_for_topics_that_the_other_cell_lacks_and_hold_up_no_other_tenant() {
    let world = World::new().await;
    world.make_tenant(&umbrella()).await;
    let mut later = world.kafka.clone();
    later.topic_prefix = format!("later.{}", world.kafka.topic_prefix);
    world.freeze(&umbrella()).await;
    world.set_moved(&umbrella(), &later.topic_prefix).await;
    world.send_of("umbrella", 1).await;
    world.send_of("acme", 1).await;
    let running = world.start();
    world.wait_for_number(ACMES, 1).await;
    world.wait_for_number(WAITING, 1).await;
    world.send_of("acme", 2).await;
    world.wait_for_number(ACMES, 2).await;
    running.wait_until_ready().await;
    assert_eq!(running.counter(PASSED_ON), 0);
    admin::create_topics(&later).await.unwrap();
    wait_until_passed(&running, 1).await;
    world.wait_for_number(WAITING, 0).await;
    running.stop().await;
    admin::delete_topics(&later).await.unwrap();
    world.end().await;
}
