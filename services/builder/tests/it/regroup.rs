//! Stored reports that move to other groups because the tenant's rules changed.

use crate::builder_fixture::{BUILDER_TIMEOUT, World, acme};
use bytes::Bytes;
use std::time::Duration;
use time::OffsetDateTime;
use unslide_artifacts::segment::{BodyId, seal_frame};
use unslide_artifacts::{Put, keys};
use unslide_model::{ContentHash, ReportGrouping, ReportId};
use unslide_report::Report;
use unslide_store::groups::rules::{self, RegroupStatus};
use unslide_store::queries::groups::{self, GroupFilter, GroupOrder};
use unslide_store::reports::{self, Arrival, Effects, ReportDetails};
use unslide_store::{partitions, segments};
use unslide_symbolicate::grouping::{GroupingRules, regroup_report};

fn id(n: u8) -> ReportId {
    ReportId([n; 16])
}

/// A report as the symbolizer has enriched it: `Cart.total` has called `Log.write`.
fn enriched() -> Vec<u8> {
    let frame = |address: u64, function: &str| {
        let relative = address - 0x1_0000_0000;
        format!(
            r#"{{"instruction_addr":{address},"symbolication":{{"status":"symbolicated","source":"dwarf",
            "debug_id":"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0","relative_address":{relative},
            "calls":[{{"function":"{function}","file":"/src/Shop.swift","line":3}}]}}}}"#
        )
    };
    let frames = [frame(0x1_0000_1000, "Log.write"), frame(0x1_0000_2000, "Cart.total")].join(",");
    format!(
        r#"{{"report":{{"id":"x"}},"binary_images":[{{"image_addr":4294967296,"image_size":65536,
        "name":"/var/containers/Bundle/Application/X/Shop.app/Shop","uuid":"0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0"}}],
        "crash":{{"error":{{"type":"signal","signal":{{"name":"SIGABRT"}}}},"threads":[{{"index":0,"crashed":true,
        "backtrace":{{"contents":[{frames}]}}}}]}},
        "symbolication":{{"version":1,"engine":"unslide/0.1.0","status":"complete","frames":{{"total":2}}}}}}"#
    )
    .into_bytes()
}

fn grouping() -> ReportGrouping {
    regroup_report(&Report::read_stored(&enriched()).unwrap(), &GroupingRules::default())
        .unwrap()
        .unwrap()
        .into()
}

fn arrival(n: u8, received_at: OffsetDateTime) -> Arrival {
    let body = enriched();
    Arrival {
        report_id: id(n),
        content_hash: ContentHash([n; 32]),
        revision: 1,
        received_at,
        body: unslide_proto::body::compress_report(&body),
        size: body.len() as u64,
        facts: ReportDetails {
            app: "com.example.shop".into(),
            status: "complete".into(),
            grouping: Some(grouping()),
            ..ReportDetails::default()
        },
        images: Vec::new(),
        origin: None,
        traceparent: None,
    }
}

/// Puts a report's body into a segment, as the indexer does an hour later.
async fn move_to_segment(world: &World, n: u8, received_at: OffsetDateTime) {
    let body = BodyId { tenant: acme(), report_id: id(n), variant: 0, revision: 1 };
    let (frame, key) = seal_frame(&body, &enriched()).unwrap();
    let day = received_at.date();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let segment = segments::new_id(&mut tx).await.unwrap();
    let place = keys::for_segment(&acme(), day, segment);
    let begun = segments::begin_segment(&mut tx, segment, day, place.as_str()).await.unwrap().unwrap();
    let length = frame.len() as u64;
    world.objects.put(&place, Bytes::from(frame), &Put::default()).await.unwrap();
    let waiting = segments::list_pending_bodies(&mut tx, day, None, 1 << 20).await.unwrap();
    let moved = segments::MovedBody {
        received_at,
        stored_at: waiting.iter().find(|body| body.report_id == id(n)).unwrap().stored_at,
        report_id: id(n),
        variant: 0,
        revision: 1,
        offset: 0,
        length,
        key,
    };
    assert_eq!(segments::finish_segment(&mut tx, &begun, &[moved]).await.unwrap(), Some(1));
    tx.commit().await.unwrap();
}

/// The titles of the tenant's groups, with their reports.
async fn groups_of(world: &World) -> Vec<(String, i64)> {
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let listed =
        groups::list_groups(&mut tx, &GroupFilter::default(), GroupOrder::LastSeen, None, 10).await.unwrap();
    listed.into_iter().map(|group| (group.title, group.reports)).collect()
}

/// Sets rules and waits until stored reports were gone through.
async fn set(world: &World, text: &str) {
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    rules::set_rules(&mut tx, "test", text).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let moved = async {
        loop {
            let mut tx = world.store.tenant(&acme()).await.unwrap();
            let now = rules::get(&mut tx).await.unwrap().unwrap();
            tx.rollback().await.unwrap();
            if now.status != RegroupStatus::Running {
                assert_eq!((now.looked, now.moved, now.unread), (2, 2, 0));
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(BUILDER_TIMEOUT, moved).await.expect("the reports move");
}

/// Ends the minutes in which reports may still come that were on their way when the rules were set twice.
async fn end_settling(world: &World) {
    world.wait_for_number("SELECT count(*) FROM jobs WHERE status = 'queued' AND run_at > now()", 2).await;
    let due =
        "WITH rules AS (UPDATE grouping_rules SET changed_at = changed_at - interval '1 hour' RETURNING 1),
                    due AS (UPDATE jobs SET run_at = now() RETURNING 1)
               SELECT count(*) FROM rules, due";
    assert_eq!(world.number(due).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_move_stored_reports_wherever_their_bodies_are_and_back() {
    let world = World::start(1).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let now = world.host.clock.now();
    partitions::ensure_partitions(&world.store, now.date(), now.date()).await.unwrap();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut tx, &[arrival(1, now), arrival(2, now)], Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    move_to_segment(&world, 2, now).await;
    assert_eq!(groups_of(&world).await, [("SIGABRT in Log.write".to_owned(), 2)]);
    set(&world, "ignore function Log.*").await;
    assert_eq!(groups_of(&world).await, [("SIGABRT in Cart.total".to_owned(), 2)]);
    set(&world, "").await;
    assert_eq!(groups_of(&world).await, [("SIGABRT in Log.write".to_owned(), 2)]);
    end_settling(&world).await;
    assert!(world.is_quiet(&mut requests).await, "no report is symbolicated again");
    world.stop().await;
}
