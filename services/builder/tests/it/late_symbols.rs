//! Symbols that come after the reports that wait for them.

use crate::world::{World, acme};
use unslide_artifacts::keys;
use unslide_model::{ContentHash, DebugId, Owner, ReportId, TenantId};
use unslide_proto::Message;
use unslide_proto::report::{Resymbolicate, resymbolicate::Body};
use unslide_store::segments;
use unslide_store::reports::{self, Arrival, Effects, Facts, ImageUse, Origin, Outcome};
use unslide_store::tenants;
use unslide_symbolicate::object::{Limits, objects};
use unslide_testkit::fixtures::dsym;

const BODY: &[u8] = br#"{"report":{"id":"x"},"crash":{}}"#;

/// Report `n`, which lacks the symbols of an image.
fn arrival(world: &World, n: u8, debug_id: DebugId, system: bool) -> Arrival {
    Arrival {
        report_id: ReportId([n; 16]),
        content_hash: ContentHash([n; 32]),
        revision: 1,
        received_at: world.host.clock.now(),
        body: unslide_proto::body::compress(BODY),
        size: BODY.len() as u64,
        facts: Facts { status: "partial".into(), ..Facts::default() },
        images: vec![ImageUse {
            debug_id,
            name: "app".into(),
            arch: "arm64".into(),
            system,
            found: false,
            seen_generation: 0,
        }],
        origin: Some(Origin { topic: "crash.reports".into(), partition: 3, offset: 77 }),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_dsym_asks_for_the_reports_that_waited() {
    let world = World::start(1).await;
    let mut requests = world.read(&world.config.kafka.topics().resymbolicate);
    let file = std::fs::read(dsym("app")).unwrap();
    let debug_id = objects(&file, &Limits::default()).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let now = world.host.clock.now();
    let arrival = |n: u8| Arrival { received_at: now, ..arrival(&world, n, debug_id, false) };
    unslide_store::partitions::ensure(&world.store, now.date(), now.date()).await.unwrap();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let stored = reports::store(&mut tx, &[arrival(1), arrival(2)], Effects::Now, None).await.unwrap();
    assert!(stored.iter().all(|s| s.outcome == Outcome::New && s.requested.is_none()), "{stored:?}");
    // The second one's body lies in a segment by now.
    let segment = segments::new_id(&mut tx).await.unwrap();
    let key = keys::segment(&acme(), now.date(), segment);
    let begun = segments::begin(&mut tx, segment, now.date(), key.as_str()).await.unwrap().unwrap();
    let frame = segments::Moved {
        received_at: now,
        report_id: ReportId([2; 16]),
        variant: 0,
        revision: 1,
        offset: 20,
        length: 100,
    };
    assert_eq!(segments::finish(&mut tx, &begun, 500, &[frame]).await.unwrap().unwrap().alive, 1);
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
        match request.body.as_ref().unwrap() {
            Body::InlineLz4(sent) => {
                assert_eq!(report.id, ReportId([1; 16]));
                assert_eq!(unslide_proto::body::decompress(sent, 1 << 20).unwrap(), BODY);
            }
            Body::Segment(place) => {
                assert_eq!(report.id, ReportId([2; 16]));
                assert_eq!((place.key.as_str(), place.offset, place.length), (key.as_str(), 20, 100));
            }
        }
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

#[tokio::test(flavor = "multi_thread")]
async fn late_system_symbols_ask_for_the_reports_of_every_tenant_and_lie_under_no_tenant() {
    let world = World::start(2).await;
    let mut requests = world.read(&world.config.kafka.topics().resymbolicate);
    let mut events = world.symbol_events();
    let umbrella = TenantId::new("umbrella").unwrap();
    let mut tx = world.store.tenant(&umbrella).await.unwrap();
    tenants::create(&mut tx, "Umbrella", &tenants::Limits::default()).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let file = std::fs::read(dsym("app")).unwrap();
    let debug_id = objects(&file, &Limits::default()).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let now = world.host.clock.now();
    unslide_store::partitions::ensure(&world.store, now.date(), now.date()).await.unwrap();
    for tenant in [&acme(), &umbrella] {
        let mut tx = world.store.tenant(tenant).await.unwrap();
        reports::store(&mut tx, &[arrival(&world, 1, debug_id, true)], Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
    }
    let upload = world.upload_of(&Owner::System, "libapp.dylib", &file).await;
    let (_, built) = world.wait_of(&Owner::System, upload).await;
    assert_eq!((built.len(), built[0].object.debug_id), (1, Some(debug_id)));
    let event = events.event().await;
    assert_eq!((event.owner().unwrap(), event.id().unwrap(), event.generation), (None, debug_id, 1));
    let mut asked = Vec::new();
    for _ in 0..2 {
        let request = Resymbolicate::decode(requests.next().await.value.unwrap()).unwrap();
        let [need] = &request.needs[..] else { panic!("{request:?}") };
        assert_eq!((need.id().unwrap(), need.generation, need.system), (debug_id, 1, true));
        assert_eq!((request.revision, request.report().unwrap().id), (2, ReportId([1; 16])));
        asked.push(request.tenant);
    }
    asked.sort_unstable();
    assert_eq!(asked, ["acme", "umbrella"]);
    assert!(requests.is_quiet().await);
    for tenant in [&acme(), &umbrella] {
        let entries = world.objects.list(&keys::tenant_prefix(tenant), None, 10).await.unwrap().entries;
        assert_eq!(entries, [], "nothing of the system lies under a tenant");
    }
    let alias = keys::system_symbols(debug_id).alias(unslide_symbolicate::symcache::VERSION);
    assert!(world.objects.head(&alias).await.unwrap().is_some());
    // Deleted by operators, as a tenant's are.
    let mut tx = world.store.owner(&Owner::System).await.unwrap();
    unslide_store::symbols::delete(&mut tx, &debug_id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    world.idle().await;
    assert_eq!(world.objects.list(&keys::system_prefix(), None, 10).await.unwrap().entries, []);
    world.stop().await;
}
