//! Requests for stored reports in segments.

use super::worker_fixture::*;
use prost::Message;
use unslide_artifacts::segment::{self, BodyId};
use unslide_artifacts::{Fault, Operation, Put, keys};
use unslide_model::{ReportId, TenantId};
use unslide_proto::headers;
use unslide_proto::report::{Need, Outcome, Resymbolicate, SegmentRef, resymbolicate::Body};
use unslide_report::ReadLimits;
use unslide_stream::{Headers, OutRecord, Record};

/// Puts a segment with one frame of this report under `tenant`; gives where it lies.
async fn put(bench: &Bench, tenant: &str, name: u128, id: ReportId, json: &[u8]) -> SegmentRef {
    let tenant = TenantId::new(tenant).unwrap();
    let day = time::macros::date!(2026 - 11 - 20);
    let body = BodyId { tenant: tenant.clone(), report_id: id, variant: 0, revision: 1 };
    let (frame, body_key) = segment::seal_frame(&body, json).unwrap();
    let (offset, length) = (segment::SEGMENT_HEADER.len() as u64, frame.len() as u64);
    let key = keys::for_segment(&tenant, day, uuid::Uuid::from_u128(name));
    let bytes = [segment::SEGMENT_HEADER.to_vec(), frame].concat();
    bench.store.put(&key, bytes.into(), &Put::default()).await.unwrap();
    SegmentRef { key: key.to_string(), offset, length, body_key: body_key.0.to_vec().into(), revision: 1 }
}

async fn ask(bench: &Bench, app: &App, id: ReportId, revision: u32, place: SegmentRef) {
    let request = Resymbolicate {
        tenant: "acme".into(),
        report_id: id.0.to_vec().into(),
        revision,
        supersedes: revision - 1,
        needs: vec![Need { debug_id: app.id.0.to_vec().into(), generation: 1, system: false }],
        body: Some(Body::Segment(place)),
        ..Resymbolicate::default()
    };
    let record = OutRecord::for_topic(bench.names.resymbolicate.as_str(), request.encode_to_vec());
    bench.producer.send_record(&record).await.unwrap();
}

fn report_id(json: &[u8]) -> ReportId {
    unslide_report::Report::read(json, &ReadLimits::default()).unwrap().id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_report_is_read_from_its_own_tenants_segment_and_no_other() {
    let bench = Bench::new().await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let (one, two) = (app.report(1, 2), app.report(2, 2));
    let (first, second) = (report_id(&one), report_id(&two));
    let place = put(&bench, "acme", 1, first, &one).await;
    // The same bytes under another tenant, a part of them, those of another report, a segment that is gone,
    // a key that is no segment at all.
    let foreign = put(&bench, "other", 1, first, &one).await;
    let cut = SegmentRef { length: place.length - 1, ..place.clone() };
    let beyond = SegmentRef { offset: 1 << 40, ..place.clone() };
    let gone = SegmentRef { key: place.key.replace("0001", "0009"), ..place.clone() };
    let odd = SegmentRef { key: "t/acme/symbols/x".into(), ..place.clone() };
    let mut lanes = vec![bench.again()];
    ask(&bench, &app, first, 2, place.clone()).await;
    ask(&bench, &app, first, 3, foreign.clone()).await;
    ask(&bench, &app, first, 4, cut).await;
    ask(&bench, &app, second, 5, place.clone()).await;
    ask(&bench, &app, first, 6, gone).await;
    ask(&bench, &app, first, 7, odd).await;
    ask(&bench, &app, first, 8, beyond).await;

    // What is damaged may have been damaged on its way: it is fetched again before it is given up.
    assert_eq!(bench.wait(&bench.names.retry_10s, 3).await.len(), 3);
    bench.clock.ahead(3_600);
    lanes.push(bench.retry());
    let dead = bench.wait(&bench.names.dead_letter, 5).await;
    let mut reasons: Vec<_> = dead.iter().map(|r| r.headers.get_text(headers::REASON).unwrap()).collect();
    reasons.sort_unstable();
    let damaged = "damaged_body";
    assert_eq!(reasons, [damaged, damaged, damaged, "foreign_body", "foreign_body"]);
    let output = bench.wait(&bench.names.output, 1).await;
    assert_eq!(output.len(), 1);
    assert_eq!(output[0].headers.get_text(headers::REVISION), Some("2"));
    assert!(symbolicated(&output[0]) > 0);
    assert_eq!(bench.terminals().await, [(Outcome::SourceGone, 6)]);
    let named = bench.ends().await.remove(0).segment;
    assert!(named.ends_with("0009"), "{named}");
    bench.end(lanes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_cannot_be_read_for_now_is_waited_for() {
    let bench = Bench::new().await;
    let app = App::new();
    bench.publish(&app, 1).await;
    let json = app.report(1, 2);
    let id = report_id(&json);
    let place = put(&bench, "acme", 1, id, &json).await;
    bench.memory.fail(Operation::Get, "segments", Fault::Transient, None);
    let mut lanes = vec![bench.again()];
    ask(&bench, &app, id, 2, place.clone()).await;
    let waiting = bench.wait(&bench.names.retry_10s, 1).await.remove(0);
    assert_eq!(waiting.headers.get_text(headers::REASON), Some("fetch_failed"));
    assert!(bench.ends().await.is_empty() && bench.read(&bench.names.output).await.is_empty());
    bench.memory.heal();
    bench.clock.ahead(3_600);
    lanes.push(bench.retry());
    assert!(symbolicated(&bench.wait(&bench.names.output, 1).await[0]) > 0);
    // Nor does a store that fails as a whole cost a record a try.
    bench.memory.fail(Operation::Get, "segments", Fault::Transient, None);
    bench.memory.fail(Operation::List, "", Fault::Transient, None);
    let tries = bench.read(&bench.names.retry_10s).await.len();
    ask(&bench, &app, id, 2, place.clone()).await;
    let told = paused(&lanes[0]).await.paused.unwrap();
    assert!(told.contains("does not answer a check: a stored report cannot be fetched"), "{told}");
    assert_eq!(bench.read(&bench.names.retry_10s).await.len(), tries);
    bench.memory.heal();
    bench.wait(&bench.names.output, 2).await;
    // What an operator has to mend is no record's fault: it is waited for.
    bench.memory.fail(Operation::Get, "segments", Fault::Refused, None);
    ask(&bench, &app, id, 3, place).await;
    let told = paused(&lanes[0]).await.paused.unwrap();
    assert!(told.contains("a stored report cannot be fetched: object storage refused"), "{told}");
    assert!(!told.contains("acme"), "{told}");
    bench.memory.heal();
    bench.end(lanes).await;
}

#[test]
fn large_stored_reports_are_not_held_together() {
    let record = |length: u64| Record {
        at: unslide_stream::RecordRef { topic: "in".into(), partition: 0, offset: 0 },
        time_millis: None,
        key: None,
        value: Some(
            Resymbolicate {
                tenant: "acme".into(),
                body: Some(Body::Segment(SegmentRef {
                    key: "t/acme/segments/x".into(),
                    length,
                    ..SegmentRef::default()
                })),
                ..Resymbolicate::default()
            }
            .encode_to_vec()
            .into(),
        ),
        headers: Headers::new(),
    };
    let batch = [4, 12, 1, 200, 3].map(|mebibytes| record(mebibytes << 20));
    let groups = crate::output::stored_reports::split_groups(batch.to_vec(), |_| true);
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1, 1]);
}
