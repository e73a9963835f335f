//! Where bodies are: in the topic, in the database, in segments on an S3 endpoint.

use crate::indexer_fixture::{World, acme, report};
use unslide_artifacts::segment::{BodyId, fetch_frame, open_frame};
use unslide_artifacts::{ObjectStore, keys};
use unslide_indexer::Settings;
use unslide_model::ReportId;
use unslide_store::queries;
use unslide_store::segments::ReportBody;

/// A report's body as a reader finds it.
async fn body(world: &World, bucket: &ObjectStore, n: u8) -> Vec<u8> {
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let (found, body) = queries::report::get(&mut tx, ReportId([n; 16]), 0).await.unwrap().unwrap();
    match body {
        ReportBody::Inline(_) => body.decompress_json().unwrap(),
        ReportBody::Segment(place) => {
            let key = keys::for_segment(&acme(), place.day, place.segment);
            let frame = fetch_frame(bucket, &key, place.offset, place.length).await.unwrap().unwrap();
            let (report_id, revision) = (ReportId([n; 16]), found.listed.revision);
            let id = BodyId { tenant: acme(), report_id, variant: 0, revision };
            open_frame(&id, &place.key, frame, 1 << 20).unwrap()
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_move_into_segments_and_a_replay_moves_nothing_back() {
    let world = World::new().await;
    let bucket = world.bucket().await;
    for n in 1..=20 {
        world.send(n, 1, None).await;
    }
    let settings = || Settings { segment_after_seconds: 1, condemned_seconds: 1, ..Settings::default() };
    let running = world.start_with(settings());
    world.wait_for_number("SELECT count(*) FROM report_frames", 20).await;
    world.wait_for_number("SELECT count(*) FROM report_bodies", 0).await;
    for n in 1..=20 {
        assert_eq!(body(&world, &bucket, n).await, report(n, 1, None).into_bytes());
    }
    // New revisions take their place; a segment that they leave empty goes.
    for n in 1..=15 {
        world.send(n, 2, Some(1)).await;
    }
    world.wait_for_number("SELECT count(*) FROM report_frames WHERE revision = 2", 15).await;
    world.wait_for_number("SELECT count(*) FROM condemned_objects", 0).await;
    running.stop().await;
    let before = world.dump().await;
    for topic in [world.topics().output, world.topics().ledger] {
        for mut position in unslide_store::positions::read_positions(&world.store, &topic).await.unwrap() {
            position.next_offset = 0;
            unslide_store::positions::reset_position(&world.store, &position).await.unwrap();
        }
    }
    let running = world.start_with(settings());
    world.wait_until_caught_up().await;
    running.stop().await;
    assert_eq!(world.dump().await, before);
    for n in 1..=20 {
        let revision = if n <= 15 { report(n, 2, Some(1)) } else { report(n, 1, None) };
        assert_eq!(body(&world, &bucket, n).await, revision.into_bytes());
    }
    world.end().await;
}
