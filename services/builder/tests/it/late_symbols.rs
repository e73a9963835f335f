//! Symbols that come after the reports that wait for them.

use crate::world::{World, acme};
use unslide_model::{ContentHash, ReportId};
use unslide_proto::Message;
use unslide_proto::report::{Resymbolicate, resymbolicate::Body};
use unslide_store::reports::{self, Arrival, Effects, Facts, ImageUse, Origin, Outcome};
use unslide_symbolicate::object::{Limits, objects};
use unslide_testkit::fixtures::dsym;

#[tokio::test(flavor = "multi_thread")]
async fn a_late_dsym_asks_for_the_reports_that_waited() {
    let world = World::start(1).await;
    let mut requests = world.read(&world.config.kafka.topics().resymbolicate);
    let file = std::fs::read(dsym("app")).unwrap();
    let debug_id = objects(&file, &Limits::default()).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let body = br#"{"report":{"id":"x"},"crash":{}}"#;
    let arrival = |n: u8| Arrival {
        report_id: ReportId([n; 16]),
        content_hash: ContentHash([n; 32]),
        revision: 1,
        received_at: world.host.clock.now(),
        body: unslide_proto::body::compress(body),
        size: body.len() as u64,
        facts: Facts { status: "partial".into(), ..Facts::default() },
        images: vec![ImageUse {
            debug_id,
            name: "app".into(),
            arch: "arm64".into(),
            system: false,
            found: false,
            seen_generation: 0,
        }],
        origin: Some(Origin { topic: "crash.reports".into(), partition: 3, offset: 77 }),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    };
    let now = world.host.clock.now();
    unslide_store::partitions::ensure(&world.store, now.date(), now.date()).await.unwrap();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let stored = reports::store(&mut tx, &[arrival(1), arrival(2)], Effects::Now, None).await.unwrap();
    assert!(stored.iter().all(|s| s.outcome == Outcome::New && s.requested.is_none()), "{stored:?}");
    tx.commit().await.unwrap();

    world.one("app", &file).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let record = requests.next().await;
        assert_eq!(record.headers.text("tenant"), Some("acme"));
        let request = Resymbolicate::decode(record.value.clone().unwrap()).unwrap();
        let report = request.report().unwrap();
        assert_eq!(record.key.as_deref(), Some(unslide_proto::keys::report(&report).as_bytes()));
        assert_eq!((request.revision, request.supersedes), (2, 1));
        let [need] = &request.needs[..] else { panic!("{request:?}") };
        assert_eq!((need.id().unwrap(), need.generation, need.system), (debug_id, 1, false));
        let Some(Body::InlineLz4(sent)) = &request.body else { panic!("no body") };
        assert_eq!(unslide_proto::body::decompress(sent, 1 << 20).unwrap(), body);
        assert_eq!(request.origin.map(|o| (o.partition, o.offset)), Some((3, 77)));
        assert!(request.traceparent.starts_with("00-0af7"));
        ids.push(report.id);
    }
    ids.sort_unstable();
    assert_eq!(ids, [ReportId([1; 16]), ReportId([2; 16])]);
    // Nobody is asked twice.
    world.one("app", &file).await;
    assert!(requests.is_quiet().await);
    world.stop().await;
}
