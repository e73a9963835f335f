//! The indexer between a real Kafka and a real PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bodies;
mod bounds;
mod deferral;
mod deleted_tenants;
mod folding;
mod indexer_fixture;
mod moving;
mod replays;
mod skipped_records;
mod tenant_topics;
mod tenants;

use indexer_fixture::{World, acme};
use prost::Message as _;
use unslide_indexer::Settings;
use unslide_model::{DebugId, Quality, ReportId};
use unslide_proto::headers;
use unslide_proto::report::resymbolicate::Body;
use unslide_proto::report::{
    LedgerRecord, Outcome, ResourceUse, ResourceUses, Resymbolicate, SegmentRef, TerminalOutcome,
    ledger_record::Entry,
};
use unslide_store::{positions, queries, slots, wakes};
use unslide_stream::OutRecord;

/// Publishes the symbols of the image that the reports want.
async fn publish(world: &World) {
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let new = slots::PublishedSymbols {
        debug_id: DebugId([0x11; 16]),
        quality: Quality::Dwarf,
        content_hash: unslide_model::ContentHash([1; 32]),
        symcache_version: 1,
        generation: 1,
    };
    slots::publish_symbols(&mut tx, &new).await.unwrap();
    tx.commit().await.unwrap();
}

/// Proves: replay
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_noted_once_whoever_they_are_of() {
    let world = World::new().await;
    world.send_letter("acme", "not_json", Some(b"\x00\xff")).await;
    world.send_letter("acme", "unknown_tenant", Some(b"{}")).await;
    world.send_letter("stranger", "not_json", Some(b"{}")).await;
    world.send_letter("No Slug", "no_tenant", None).await;
    world.send_letter("", "", None).await;
    world.send_letter("acme", "kills_worker", Some(b"")).await;
    let running = world.start();
    world.wait_for_number("SELECT count(*) FROM dead_letters", 6).await;
    assert_eq!(world.number("SELECT count(*) FROM dead_letters WHERE tenant = 'acme'").await, 2);
    assert_eq!(world.number("SELECT count(*) FROM dead_letters WHERE tenant IS NULL").await, 4);
    assert_eq!(world.number("SELECT count(*) FROM dead_letters WHERE value_bytes IS NULL").await, 2);
    running.wait_for_counter("unslide_indexer_dead_letters_total", 6).await;
    let topic = world.topics().dead_letter;
    let id = positions::read_positions(&world.store, &topic).await.unwrap().remove(0).topic_id;
    let theirs = format!("SELECT count(*) FROM dead_letters WHERE topic_id = '{id}'");
    assert_eq!(world.number(&theirs).await, 6);
    running.stop().await;
    let before = world.dump().await;
    for mut position in positions::read_positions(&world.store, &topic).await.unwrap() {
        position.next_offset = 0;
        positions::reset_position(&world.store, &position).await.unwrap();
    }
    let running = world.start();
    world.wait_until_caught_up().await;
    running.stop().await;
    assert_eq!(world.dump().await, before);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_are_stored_once_and_a_replay_changes_nothing() {
    let world = World::new().await;
    for n in 1..=30 {
        world.send(n, 1, None).await;
    }
    // What should not be there is noted, what is of a tenant that is not there waits, and what follows is stored.
    world.send_raw("acme", "{\"report\":").await;
    world.send_raw("nobody", &indexer_fixture::report(40, 1, None)).await;
    world.send(31, 1, None).await;
    world.send(31, 1, None).await;
    let running = world.start();
    world.wait_for_number("SELECT count(*) FROM reports", 31).await;
    world.wait_for_number("SELECT count(*) FROM dead_letters WHERE stage = 'read'", 1).await;
    world.wait_for_number("SELECT sum(records)::bigint FROM deferred_ranges", 1).await;
    // Symbols come; a revision is asked for, made, and stored.
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let new = slots::PublishedSymbols {
        debug_id: DebugId([0x11; 16]),
        quality: Quality::Dwarf,
        content_hash: unslide_model::ContentHash([1; 32]),
        symcache_version: 1,
        generation: 1,
    };
    let generation = slots::publish_symbols(&mut tx, &new).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let page = wakes::request_page(&mut tx, &new.debug_id, generation, None, 100).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(page.requested, 31);
    for n in 1..=30 {
        world.send(n, 2, Some(1)).await;
    }
    // The last one answers that nothing got better.
    world.answer(31, 2, Outcome::Unchanged).await;
    world
        .wait_for_number("SELECT count(*) FROM reports WHERE revision = 2 AND status = 'complete'", 30)
        .await;
    world.wait_for_number("SELECT count(*) FROM report_keys WHERE requested_at IS NOT NULL", 0).await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let (_, body) = queries::report::get(&mut tx, ReportId([1; 16]), 0).await.unwrap().unwrap();
    assert_eq!(body.decompress_json().unwrap(), indexer_fixture::report(1, 2, Some(1)).into_bytes());
    let apps = queries::apps::list_apps(&mut tx, None, None, 10).await.unwrap();
    assert_eq!((apps[0].app.as_str(), apps[0].reports), ("com.acme.shop", 31));
    drop(tx);
    running.stop().await;

    let before = world.dump().await;
    for topic in [world.topics().output, world.topics().ledger] {
        for mut position in positions::read_positions(&world.store, &topic).await.unwrap() {
            position.next_offset = 0;
            positions::reset_position(&world.store, &position).await.unwrap();
        }
    }
    let running = world.start();
    world.wait_until_caught_up().await;
    running.stop().await;
    assert_eq!(world.dump().await, before);
    world.end().await;
}

/// Proves: replay
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_was_lost_is_made_again_and_asks_only_for_what_is_open() {
    let world = World::new().await;
    publish(&world).await;
    for n in 1..=10 {
        world.send(n, 1, None).await;
    }
    for n in 1..=9 {
        world.send(n, 2, Some(1)).await;
    }
    // In batches of one: what is put off is put off over several.
    let running = world.start_with(Settings { batch_records: 1, ..Settings::default() });
    world.wait_for_number("SELECT count(*) FROM reports WHERE revision = 2", 9).await;
    world.wait_for_number("SELECT count(*) FROM outbox WHERE kind = 'resymbolicate'", 1).await;
    world.wait_for_number("SELECT count(*) FROM report_keys WHERE ask_pending", 0).await;
    running.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM outbox WHERE kind = 'resymbolicate'").await, 1);
    world.end().await;
}

/// The stored body of a report cannot be read, or the request kills workers: it is not sent for ever.
/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_a_dead_letter_ends_for_good() {
    let world = World::new().await;
    publish(&world).await;
    for n in 1..=3 {
        world.send(n, 1, None).await;
    }
    let own = Settings { segment_after_seconds: 1, ..Settings::default() };
    let running = world.start_with(own);
    let open = "SELECT count(*) FROM report_keys WHERE requested_at IS NOT NULL";
    world.wait_for_number(open, 3).await;
    world.wait_for_number("SELECT count(*) FROM report_frames", 3).await;
    let letter = async |n: u8, reason: &'static str, from: String, segment: Option<String>| {
        let id = unslide_store::Uuid::from_bytes([n; 16]);
        let asked =
            "SELECT (extract(epoch FROM requested_at) * 1000000)::bigint FROM report_keys WHERE report_id";
        let asked = world.number(&format!("{asked} = '{id}'")).await;
        let place = |key| Body::Segment(SegmentRef { key, length: 100, ..SegmentRef::default() });
        let request = Resymbolicate {
            tenant: "acme".into(),
            report_id: vec![n; 16].into(),
            revision: 2,
            supersedes: 1,
            requested_at_micros: asked,
            body: segment.map(place),
            ..Resymbolicate::default()
        };
        let record = OutRecord::for_topic(world.topics().dead_letter, request.encode_to_vec())
            .header(headers::TENANT, "acme")
            .header(headers::REASON, reason)
            .header(headers::ORIGIN_TOPIC, from);
        world.producer.send_record(&record).await.unwrap();
    };
    let requests = world.topics().resymbolicate;
    // One of a report that came in, and one of a segment that the report has left.
    letter(1, "not_a_report", world.topics().input, None).await;
    let old = format!("t/acme/segments/2026-01-01/{}", unslide_store::Uuid::nil());
    letter(1, "damaged_body", requests.clone(), Some(old)).await;
    world.wait_for_number("SELECT count(*) FROM dead_letters", 2).await;
    assert_eq!(world.number(open).await, 3);
    letter(1, "too_large", requests.clone(), None).await;
    world.wait_for_number(open, 2).await;
    let segment =
        world.text("SELECT min(key) FROM segments s JOIN report_frames f ON f.segment = s.id").await;
    letter(2, "damaged_body", requests, Some(segment)).await;
    world.wait_for_number(open, 1).await;
    running.wait_for_counter("unslide_indexer_requests_closed_total", 2).await;
    running.wait_for_counter("unslide_indexer_damaged_frames_total", 1).await;
    running.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_indexers_share_the_partitions_and_one_takes_over() {
    let world = World::new().await;
    let (first, second) = (world.start(), world.start());
    for n in 1..=40 {
        world.send(n, 1, None).await;
    }
    world.wait_for_number("SELECT count(*) FROM reports", 40).await;
    // Each of an indexer's readers has leases of its own, in the name of the indexer and its number.
    let indexers = "SELECT count(DISTINCT regexp_replace(owner, '-[0-9]+$', '')) FROM partition_leases WHERE partition >= 0";
    world.wait_for_number(indexers, 2).await;
    first.stop().await;
    for n in 41..=80 {
        world.send(n, 1, None).await;
    }
    world.wait_for_number("SELECT count(*) FROM reports", 80).await;
    assert_eq!(world.number("SELECT sum(reports)::bigint FROM app_days").await, 80);
    second.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_cannot_be_stops_the_indexer_and_it_says_so() {
    let world = World::new().await;
    let running = world.start();
    world.send(1, 1, None).await;
    world.wait_for_number("SELECT count(*) FROM reports", 1).await;
    running.stop().await;
    let good = positions::read_positions(&world.store, &world.topics().output).await.unwrap();
    let mut beyond = good[0].clone();
    beyond.next_offset = 1_000_000;
    let mut other = good[0].clone();
    other.topic_id = "00".repeat(16);
    // What retention took before it was read is missing.
    let mut before = good.iter().find(|position| position.next_offset == 1).unwrap().clone();
    world.delete_before(&before.topic, before.partition, before.next_offset).await;
    before.next_offset = 0;
    for (bad, words) in [
        (beyond, "lies outside the log"),
        (before, "lies outside the log (1..=1)"),
        (other, "was created again"),
    ] {
        positions::reset_position(&world.store, &bad).await.unwrap();
        let running = world.start();
        running.wait_until_unready(words).await;
        // Once an operator has put it right, it goes on by itself.
        let reset = unslide_indexer::reset_positions(&world.store, &world.kafka).await.unwrap();
        assert_eq!(reset.iter().map(|reset| &reset.before).collect::<Vec<_>>(), [&bad]);
        running.wait_until_ready().await;
        world.wait_for_number("SELECT count(*) FROM reports", 1).await;
        running.stop().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_another_kind_closes_nothing_and_a_foreign_record_is_noted() {
    let world = World::new().await;
    let running = world.start();
    world.answer(1, 2, Outcome::Symbolicated).await;
    let record = OutRecord::for_topic(world.topics().ledger, &b"\xFF\xFFnot a ledger record"[..]);
    world.producer.send_record(&record).await.unwrap();
    world
        .wait_for_number(
            "SELECT count(*) FROM dead_letters WHERE stage = 'read' AND reason = 'not_ledger'",
            1,
        )
        .await;
    running.wait_until_ready().await;
    running.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_the_database_refuses_costs_none_of_its_neighbours() {
    let world = World::new().await;
    // Stands for a value that nobody thought of.
    world
        .execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF NEW.report_id = '07070707-0707-0707-0707-070707070707' THEN
                     RAISE EXCEPTION 'no such value' USING ERRCODE = '22003';
                 END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON reports FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    for n in 1..=20 {
        world.send(n, 1, None).await;
    }
    let running = world.start();
    world.wait_for_number("SELECT count(*) FROM reports", 19).await;
    world
        .wait_for_number(
            "SELECT count(*) FROM dead_letters WHERE stage = 'store' AND reason = 'constraint_violation'",
            1,
        )
        .await;
    world.wait_until_caught_up().await;
    assert_eq!(world.number("SELECT sum(reports)::bigint FROM app_days").await, 19);
    running.wait_for_counter(r#"unslide_indexer_dead_letters_total{reason="constraint_violation""#, 1).await;
    running.wait_for_counter(r#"unslide_indexer_records_total{kind="reports""#, 19).await;
    running.stop().await;
    world.end().await;
}

#[tokio::test]
async fn what_a_symbolizer_used_counts_once_though_the_ledger_is_read_again() {
    let world = World::new().await;
    let used =
        ResourceUse { tenant: "acme".into(), cpu_micros: 700, kafka_bytes: 9, ..ResourceUse::default() };
    let rest = ResourceUse { cpu_micros: 300, ..ResourceUse::default() };
    let record = LedgerRecord {
        lane: "uses".into(),
        worker: "symbolizer-0".into(),
        at_micros: unslide_model::Clock::now_micros(&unslide_model::SystemClock),
        entry: Some(Entry::Uses(ResourceUses { uses: vec![used, rest] })),
    };
    let record = OutRecord::for_topic(world.topics().ledger, record.encode_to_vec());
    // As a symbolizer does that did not hear that its statement arrived.
    for _ in 0..2 {
        world.producer.send_record(&record).await.unwrap();
    }
    let running = world.start();
    world.wait_for_number("SELECT count(*) FROM resource_use_statements", 1).await;
    world.wait_until_caught_up().await;
    running.stop().await;
    // What the indexer itself used is recorded, too, and no bytes of it are so few.
    assert!(
        world.number("SELECT sum(cpu_micros)::bigint FROM resource_uses WHERE tenant = 'acme'").await >= 700
    );
    assert!(
        world.number("SELECT sum(cpu_micros)::bigint FROM resource_uses WHERE tenant = 'acme'").await < 1_400
    );
    assert!(world.number("SELECT sum(cpu_micros)::bigint FROM shared_resource_uses").await > 300);
    world.end().await;
}

impl World {
    /// Says in the ledger how a request ended.
    async fn answer(&self, n: u8, revision: u32, outcome: Outcome) {
        let record = self.build_answer(n, revision, outcome).await;
        self.producer.send_record(&record).await.unwrap();
    }

    /// The entry of the ledger for that.
    async fn build_answer(&self, n: u8, revision: u32, outcome: Outcome) -> OutRecord {
        let id = ReportId([n; 16]);
        let asked =
            "SELECT coalesce(max(extract(epoch FROM requested_at) * 1000000)::bigint, 0) FROM report_keys";
        let requested_at_micros = self.number(&format!("{asked} WHERE report_id = '{id}'")).await;
        let terminal = TerminalOutcome {
            tenant: "acme".into(),
            report_id: vec![n; 16].into(),
            revision,
            outcome: outcome.into(),
            requested_at_micros,
            ..TerminalOutcome::default()
        };
        let record = LedgerRecord {
            lane: "resymbolicate".into(),
            worker: "test".into(),
            at_micros: unslide_model::Clock::now_micros(&unslide_model::SystemClock),
            entry: Some(Entry::Terminal(terminal)),
        };
        OutRecord::for_topic(self.topics().ledger, record.encode_to_vec())
    }
}
