//! Symbols that come after the reports that wait for them.

use crate::builder_fixture::{World, acme};
use time::OffsetDateTime;
use unslide_artifacts::{Put, keys};
use unslide_model::{BodyKey, ContentHash, DebugId, Owner, Quality, ReportId, TenantId};
use unslide_proto::Message;
use unslide_proto::report::{Resymbolicate, resymbolicate::Body};
use unslide_store::jobs::{self, JobKind, Work};
use unslide_store::outbox::{self, Relay};
use unslide_store::queries::missing;
use unslide_store::reports::{self, Arrival, ArrivalOutcome, Effects, ImageUse, ReportDetails, ReportOrigin};
use unslide_store::requests::{self, RequestOutcome};
use unslide_store::{reprocess, segments, slots, symbols, tenants, uploads, wakes};
use unslide_symbolicate::object::list_objects;
use unslide_testkit::fixtures::{binary, dsym};

const BODY: &[u8] = br#"{"report":{"id":"x"},"crash":{}}"#;

pub fn id(n: u16) -> ReportId {
    ReportId(u128::from(n).to_be_bytes())
}

/// Report `n`, which lacks the symbols of an image.
pub fn arrival(received_at: OffsetDateTime, n: u16, debug_id: DebugId, system: bool) -> Arrival {
    Arrival {
        report_id: id(n),
        content_hash: ContentHash([n.to_be_bytes()[1]; 32]),
        revision: 1,
        received_at,
        body: unslide_proto::body::compress_report(BODY),
        size: BODY.len() as u64,
        facts: ReportDetails { status: "partial".into(), ..ReportDetails::default() },
        images: vec![ImageUse {
            debug_id,
            name: "app".into(),
            arch: "arm64".into(),
            system,
            found: false,
            stripped: false,
            failed: false,
            seen_generation: 0,
        }],
        origin: Some(ReportOrigin { topic: "crash.reports".into(), partition: 3, offset: 77, index: 0 }),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_dsym_asks_for_the_reports_that_waited() {
    let world = World::start(1).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let file = std::fs::read(dsym("app")).unwrap();
    let debug_id = list_objects(&file).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let now = world.host.clock.now();
    let arrival = |n: u16| arrival(now, n, debug_id, false);
    unslide_store::partitions::ensure_partitions(&world.store, now.date(), now.date()).await.unwrap();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let stored =
        reports::store_arrivals(&mut tx, &[arrival(1), arrival(2)], Effects::Now, None).await.unwrap();
    assert!(stored.iter().all(|s| s.outcome == ArrivalOutcome::New && s.requested.is_none()), "{stored:?}");
    // The second one's body lies in a segment by now.
    let segment = segments::new_id(&mut tx).await.unwrap();
    let key = keys::for_segment(&acme(), now.date(), segment);
    let begun = segments::begin_segment(&mut tx, segment, now.date(), key.as_str()).await.unwrap().unwrap();
    let waiting = segments::list_pending_bodies(&mut tx, now.date(), None, 1 << 20).await.unwrap();
    let frame = segments::MovedBody {
        received_at: now,
        stored_at: waiting[1].stored_at,
        report_id: id(2),
        variant: 0,
        revision: 1,
        offset: 20,
        length: 100,
        key: BodyKey([7; 32]),
    };
    assert_eq!(segments::finish_segment(&mut tx, &begun, &[frame]).await.unwrap(), Some(1));
    tx.commit().await.unwrap();

    world.one("app", &file).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let record = requests.next().await;
        assert_eq!(record.headers.get_text("tenant"), Some("acme"));
        let request = Resymbolicate::decode(record.value.clone().unwrap()).unwrap();
        let report = request.parse_report_id().unwrap();
        assert_eq!(record.key.as_deref(), Some(unslide_proto::keys::for_report(&report).as_bytes()));
        assert_eq!((request.revision, request.supersedes), (2, 1));
        assert_eq!(request.content_hash, arrival(u16::from(report.id.0[15])).content_hash.0.to_vec());
        let [need] = &request.needs[..] else { panic!("{request:?}") };
        assert_eq!((need.parse_debug_id().unwrap(), need.generation, need.system), (debug_id, 1, false));
        match request.body.as_ref().unwrap() {
            Body::InlineLz4(sent) => {
                assert_eq!(report.id, id(1));
                assert_eq!(unslide_proto::body::decompress_report(sent, 1 << 20).unwrap(), BODY);
            }
            Body::Segment(place) => {
                assert_eq!(report.id, id(2));
                assert_eq!((place.key.as_str(), place.offset, place.length), (key.as_str(), 20, 100));
            }
        }
        assert_eq!(request.origin.map(|o| (o.partition, o.offset)), Some((3, 77)));
        assert!(request.traceparent.starts_with("00-0af7"));
        ids.push(report.id);
    }
    ids.sort_unstable();
    assert_eq!(ids, [id(1), id(2)]);
    // Nobody is asked twice.
    world.one("app", &file).await;
    assert!(world.is_quiet(&mut requests).await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_system_symbols_ask_for_the_reports_of_every_tenant_and_lie_under_no_tenant() {
    let world = World::start(2).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let mut events = world.symbol_events();
    let umbrella = TenantId::new("umbrella").unwrap();
    let mut tx = world.store.tenant(&umbrella).await.unwrap();
    tenants::create_tenant(&mut tx, "Umbrella", &tenants::QuotaLimits::default()).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let file = std::fs::read(dsym("app")).unwrap();
    let debug_id = list_objects(&file).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let now = world.host.clock.now();
    unslide_store::partitions::ensure_partitions(&world.store, now.date(), now.date()).await.unwrap();
    for tenant in [&acme(), &umbrella] {
        let mut tx = world.store.tenant(tenant).await.unwrap();
        reports::store_arrivals(&mut tx, &[arrival(now, 1, debug_id, true)], Effects::Now, None)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    let upload = world.receive_upload(&Owner::System, "libapp.dylib", &file).await;
    let (_, built) = world.wait_for_upload(&Owner::System, upload).await;
    assert_eq!((built.len(), built[0].object.debug_id), (1, Some(debug_id)));
    let event = events.event().await;
    assert_eq!(
        (event.parse_owner().unwrap(), event.parse_debug_id().unwrap(), event.generation),
        (None, debug_id, 1)
    );
    let mut asked = Vec::new();
    for _ in 0..2 {
        let request = Resymbolicate::decode(requests.next().await.value.unwrap()).unwrap();
        let [need] = &request.needs[..] else { panic!("{request:?}") };
        assert_eq!((need.parse_debug_id().unwrap(), need.generation, need.system), (debug_id, 1, true));
        assert_eq!((request.revision, request.parse_report_id().unwrap().id), (2, id(1)));
        asked.push(request.tenant);
    }
    asked.sort_unstable();
    assert_eq!(asked, ["acme", "umbrella"]);
    assert!(world.is_quiet(&mut requests).await);
    for tenant in [&acme(), &umbrella] {
        let entries = world.objects.list(&keys::tenant_prefix(tenant), None, 10).await.unwrap().entries;
        assert_eq!(entries, [], "nothing of the system lies under a tenant");
    }
    let alias = keys::for_symbols(unslide_model::Owner::System.own(debug_id))
        .alias(unslide_symbolicate::symcache::SYMCACHE_VERSION);
    assert!(world.objects.head(&alias).await.unwrap().is_some());
    // Deleted by operators, as a tenant's are.
    let mut tx = world.store.owner(&Owner::System).await.unwrap();
    unslide_store::symbols::delete_symbols(&mut tx, &debug_id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    world.wait_until_idle().await;
    assert_eq!(world.objects.list(&keys::system_prefix(), None, 10).await.unwrap().entries, []);
    world.stop().await;
}

/// A tenant that a wake of the system comes to after `acme`.
async fn umbrella(world: &World) -> TenantId {
    let umbrella = TenantId::new("umbrella").unwrap();
    world.make_tenant(&umbrella).await;
    umbrella
}

/// Stores reports of a tenant that lack the symbols of a system image.
async fn store_lacking(world: &World, tenant: &TenantId, reports: std::ops::RangeInclusive<u16>) {
    let now = world.host.clock.now();
    unslide_store::partitions::ensure_partitions(&world.store, now.date(), now.date()).await.unwrap();
    let arrivals: Vec<Arrival> = reports.map(|n| arrival(now, n, DebugId([7; 16]), true)).collect();
    let mut tx = world.store.tenant(tenant).await.unwrap();
    reports::store_arrivals(&mut tx, &arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
}

/// The symbols of the system image come, and all wakes of `acme` fail.
async fn publish_and_refuse(world: &World) {
    publish_of(world, &Owner::System, DebugId([7; 16])).await;
    world
        .execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON report_keys FOR EACH ROW
             WHEN (NEW.tenant = 'acme') EXECUTE FUNCTION refuse()",
        )
        .await;
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_of_the_system_goes_on_behind_a_tenant_that_fails_and_stays_open_for_it() {
    let mut world = World::start(0).await;
    world.config.builder.patience_seconds = 0;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let umbrella = umbrella(&world).await;
    store_lacking(&world, &acme(), 1..=2).await;
    store_lacking(&world, &umbrella, 3..=4).await;
    publish_and_refuse(&world).await;
    world.builder();
    assert_eq!(requests_for(&mut requests, 2).await, [(id(3), 2), (id(4), 2)]);
    let put_off = "SELECT count(*) FROM jobs WHERE kind = 'wake_system' AND status <> 'done' AND last_error LIKE '%refused%'";
    while world.number(put_off).await == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    world
        .execute("DROP FUNCTION refuse CASCADE; UPDATE jobs SET run_at = now() WHERE status = 'queued'")
        .await;
    assert_eq!(requests_for(&mut requests, 2).await, [(id(1), 2), (id(2), 2)]);
    world.wait_until_idle().await;
    world.stop().await;
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_goes_on_in_another_turn_comes_back_to_the_tenant_that_failed_before() {
    let mut world = World::start(0).await;
    world.config.builder.wake_per_second = 1;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let umbrella = umbrella(&world).await;
    store_lacking(&world, &acme(), 1..=2).await;
    store_lacking(&world, &umbrella, 3..=452).await;
    publish_and_refuse(&world).await;
    world.builder();
    assert_eq!(requests_for(&mut requests, 200).await.len(), 200, "a page, and none for minutes");
    world.stop_builders().await;
    world.execute("DROP FUNCTION refuse CASCADE").await;
    world.config.builder.wake_per_second = 1_000;
    world.builder();
    let asked = requests_for(&mut requests, 252).await;
    assert_eq!(asked[..2], [(id(1), 2), (id(2), 2)]);
    assert!(world.is_quiet(&mut requests).await, "each once");
    world.stop().await;
}

/// Stores reports that lack the symbols of an image; gives when they were received.
async fn store(world: &World, debug_id: DebugId, reports: std::ops::RangeInclusive<u16>) -> OffsetDateTime {
    let now = world.host.clock.now();
    unslide_store::partitions::ensure_partitions(&world.store, now.date(), now.date()).await.unwrap();
    let arrivals: Vec<Arrival> = reports.map(|n| arrival(now, n, debug_id, false)).collect();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut tx, &arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    now
}

/// Symbols for an image come, without an object.
pub async fn publish(world: &World, debug_id: DebugId) {
    publish_of(world, &Owner::Tenant(acme()), debug_id).await;
}

/// The same for an image of any owner.
async fn publish_of(world: &World, owner: &Owner, debug_id: DebugId) {
    let mut tx = world.store.owner(owner).await.unwrap();
    let symbols = slots::PublishedSymbols {
        debug_id,
        quality: Quality::Dwarf,
        content_hash: ContentHash([7; 32]),
        symcache_version: 1,
        generation: 1,
    };
    slots::publish_symbols(&mut tx, &symbols).await.unwrap();
    tx.commit().await.unwrap();
}

/// The next `count` requests: their reports and revisions.
pub async fn requests_for(topic: &mut crate::builder_fixture::Topic, count: usize) -> Vec<(ReportId, u32)> {
    let mut asked = Vec::new();
    while asked.len() < count {
        let request = Resymbolicate::decode(topic.next().await.value.unwrap()).unwrap();
        asked.push((request.parse_report_id().unwrap().id, request.revision));
    }
    asked.sort_unstable();
    asked
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn builders_that_die_between_pages_and_before_sending_lose_no_report() {
    let mut world = World::start(0).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let debug_id = DebugId([7; 16]);
    store(&world, debug_id, 1..=500).await;
    publish(&world, debug_id).await;
    // One takes the job, commits a page, and is killed in the next one.
    let lease = time::Duration::milliseconds(500);
    let job = jobs::lease_jobs(&world.store, &[JobKind::Wake], "dead", lease, 1).await.unwrap().remove(0);
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let page = wakes::request_page(&mut tx, &debug_id, 1, None, 200).await.unwrap();
    assert_eq!(page.requested, 200);
    tx.commit().await.unwrap();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    wakes::request_page(&mut tx, &debug_id, 1, page.next, 200).await.unwrap();
    drop(tx);
    // Another one reads what it has to send, and is killed before it does.
    let mut relay = Relay::acquire(&world.store).await.unwrap().unwrap();
    assert_eq!(relay.next(1_000).await.unwrap().len(), 202, "the tenant, the event and a page");
    drop(relay);
    world.builder();
    let asked = requests_for(&mut requests, 500).await;
    let wanted: Vec<_> = (1..=500).map(|n| (id(n), 2)).collect();
    assert_eq!(asked, wanted, "each once");
    assert!(world.is_quiet(&mut requests).await);
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    assert!(jobs::complete_job(&mut tx, &job).await.is_err(), "the dead one has no say any more");
    drop(tx);
    world.stop().await;
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn wakes_keep_their_pace_and_hold_up_neither_a_purge_nor_the_builders_end() {
    let mut world = World::start(0).await;
    world.config.builder.wake_per_second = 1;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let wanted = DebugId([7; 16]);
    store(&world, wanted, 1..=450).await;
    publish(&world, wanted).await;
    world.builder();
    // The newest ones, and then nobody for more than three minutes.
    assert_eq!(requests_for(&mut requests, 200).await.len(), 200);
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let deleted = Work::Purge { debug_id: DebugId([8; 16]), objects: vec![], generation: 1 };
    jobs::add_job(&mut tx, &deleted).await.unwrap();
    tx.commit().await.unwrap();
    while jobs::count_jobs(&world.store)
        .await
        .unwrap()
        .iter()
        .any(|count| count.kind != JobKind::Wake.as_str())
    {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(world.running("wake"), 1);
    world.wait_for_number("SELECT count(*) FROM outbox WHERE sent_at IS NULL", 0).await;
    assert!(requests.is_empty().await);
    // A builder that ends does not wait for that, and leaves the job to the next one as it was.
    world.stop_builders().await;
    world.config.builder.wake_per_second = 1_000;
    world.builder();
    assert_eq!(requests_for(&mut requests, 250).await.len(), 250);
    assert!(world.is_quiet(&mut requests).await, "each once");
    world.stop().await;
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_makes_an_image_better_counts_as_late_symbols_too() {
    let world = World::start(1).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let names = std::fs::read(binary("app-symtab")).unwrap();
    let debug_id = list_objects(&names).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let received_at = store(&world, debug_id, 1..=3).await;
    world.one("app-symtab", &names).await;
    assert_eq!(requests_for(&mut requests, 3).await, [(id(1), 2), (id(2), 2), (id(3), 2)]);
    // Two are answered with the symbol table's names, one with the news that they help nothing.
    let mut answers: Vec<Arrival> = (1..=2).map(|n| arrival(received_at, n, debug_id, false)).collect();
    for answer in &mut answers {
        answer.revision = 2;
        (answer.images[0].found, answer.images[0].seen_generation) = (true, 1);
    }
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut tx, &answers, Effects::Now, None).await.unwrap();
    let micros = "SELECT (extract(epoch FROM requested_at) * 1000000)::bigint FROM report_keys
                  WHERE requested_at IS NOT NULL ORDER BY report_id DESC LIMIT 1";
    let sent = outbox::from_micros(world.number(micros).await);
    assert!(
        requests::close_request(&mut tx, (id(3), 0), 2, RequestOutcome::Unchanged, sent)
            .await
            .unwrap()
            .is_some()
    );
    tx.commit().await.unwrap();
    let (full, _) = world.one("app", &std::fs::read(dsym("app")).unwrap()).await;
    assert_eq!((full.debug_id, full.quality), (Some(debug_id), Quality::DwarfSymtab));
    assert_eq!(requests_for(&mut requests, 3).await, [(id(1), 3), (id(2), 3), (id(3), 2)]);
    // What offers less than the best asks nobody.
    world.one("app", &std::fs::read(binary("app")).unwrap()).await;
    assert!(world.is_quiet(&mut requests).await);
    world.stop().await;
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn a_dsym_heals_what_a_stripped_binary_has_answered() {
    let world = World::start(1).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let file = std::fs::read(binary("app-stripped")).unwrap();
    let debug_id = list_objects(&file).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let received_at = store(&world, debug_id, 1..=2).await;
    let (stripped, _) = world.one("app-stripped", &file).await;
    assert!(stripped.quality <= Quality::Exports && !stripped.offers.dwarf, "{stripped:?}");
    assert!(stripped.reason.as_deref().is_some_and(|reason| reason.contains("stripped")), "{stripped:?}");
    let is_missing = async || {
        let mut tx = world.store.tenant(&acme()).await.unwrap();
        let listed =
            missing::list_missing(&mut tx, &missing::MissingFilter::default(), None, 10).await.unwrap();
        let checked = symbols::check_readiness(&mut tx, &[debug_id]).await.unwrap()[0].1;
        let is_listed = listed.iter().any(|missing| missing.image.debug_id == debug_id);
        assert_eq!(is_listed, checked == symbols::SymbolReadiness::Missing);
        is_listed
    };
    assert!(is_missing().await);
    let asked = requests_for(&mut requests, 2).await;
    assert_eq!(asked, [(id(1), 2), (id(2), 2)]);
    let mut answers: Vec<Arrival> = (1..=2).map(|n| arrival(received_at, n, debug_id, false)).collect();
    for answer in &mut answers {
        answer.revision = 2;
        answer.images[0] =
            ImageUse { found: true, stripped: true, seen_generation: 1, ..answer.images[0].clone() };
    }
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut tx, &answers, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    assert!(is_missing().await);
    world.one("app", &std::fs::read(dsym("app")).unwrap()).await;
    assert_eq!(requests_for(&mut requests, 2).await, [(id(1), 3), (id(2), 3)]);
    assert!(!is_missing().await);
    world.stop().await;
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wanted_again_is_asked_for_by_a_job() {
    let world = World::start(1).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    store(&world, DebugId([9; 16]), 1..=250).await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let made =
        reprocess::create_reprocess(&mut tx, "test", &reprocess::ReprocessFilter::default()).await.unwrap();
    tx.commit().await.unwrap();
    let asked = requests_for(&mut requests, 250).await;
    assert_eq!(asked, (1..=250).map(|n| (id(n), 2)).collect::<Vec<_>>());
    world.wait_until_idle().await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let done = reprocess::get(&mut tx, made.id).await.unwrap().unwrap();
    assert_eq!((done.status, done.matched, done.asked), (reprocess::ReprocessStatus::Done, 250, 250));
    drop(tx);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_receiver_died_is_swept() {
    let mut world = World::start(0).await;
    // Every upload that is there when the builder starts has waited too long.
    world.config.builder.receiving_seconds = 0;
    let mut tx = world.store.owner(&Owner::System).await.unwrap();
    let id = uploads::create_upload(&mut tx, Some("cut.zip"), None).await.unwrap();
    tx.commit().await.unwrap();
    let key = keys::for_upload(Owner::System.own(id));
    world.objects.put_stream(&key, &b"half"[..], 100, &Put::default()).await.unwrap();
    world.builder();
    let (upload, _) = world.wait_for_upload(&Owner::System, id).await;
    assert_eq!((upload.status, upload.reason.as_deref()), (uploads::UploadStatus::Failed, Some("abandoned")));
    while world.objects.head(&key).await.unwrap().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    world.stop().await;
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_builders_die_in_again_and_again_is_done_in_the_end() {
    let mut world = World::start(0).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let debug_id = DebugId([7; 16]);
    store(&world, debug_id, 1..=250).await;
    publish(&world, debug_id).await;
    // The wake waits inside its first page, as somebody else has a report's key.
    let mut sql = world.connect().await;
    sqlx::raw_sql("BEGIN; SELECT FROM report_keys FOR UPDATE").execute(&mut sql).await.unwrap();
    let mut looker = world.connect().await;
    let job = "SELECT lease_token::text, attempts, status, last_error FROM jobs WHERE kind = 'wake' ORDER BY created_at LIMIT 1";
    let mut wake: (Option<String>, i32, String, Option<String>) =
        sqlx::query_as(job).fetch_one(&mut looker).await.unwrap();
    // A death before an attempt is counted is none of the job's, and one more follows.
    while wake.1 < i32::try_from(jobs::MAX_ATTEMPTS).unwrap() + 2 {
        let before = wake.0.clone();
        world.builder();
        let begin = tokio::time::Instant::now();
        let mut looks = 0;
        while wake.0.is_none() || wake.0 == before || world.running("wake") == 0 {
            assert!(begin.elapsed().as_secs() < 300, "no builder takes it: {wake:?}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            // One that found a server busy has put it off.
            sqlx::raw_sql("UPDATE jobs SET run_at = now() WHERE status = 'queued'")
                .execute(&mut looker)
                .await
                .unwrap();
            // The statement of one that was killed may have taken the job after its lease was ended below.
            looks += 1;
            if looks % 250 == 0 && world.running("wake") == 0 {
                end_leases(&mut looker).await;
            }
            wake = sqlx::query_as(job).fetch_one(&mut looker).await.unwrap();
        }
        world.kill_builders().await;
        wake = sqlx::query_as(job).fetch_one(&mut looker).await.unwrap();
        // Its lease ends, and so does the pause after so many deaths.
        end_leases(&mut looker).await;
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut sql).await.unwrap();
    world.builder();
    assert_eq!(requests_for(&mut requests, 250).await.len(), 250);
    assert!(world.is_quiet(&mut requests).await, "each once");
    let failed = "SELECT count(*) FROM jobs WHERE status = 'failed'";
    assert_eq!(sqlx::query_scalar::<_, i64>(failed).fetch_one(&mut looker).await.unwrap(), 0);
    for connection in [sql, looker] {
        sqlx::Connection::close(connection).await.unwrap();
    }
    world.stop().await;
}

async fn end_leases(sql: &mut sqlx::PgConnection) {
    let end = "UPDATE jobs SET lease_until = now() - interval '11 minutes' WHERE status = 'running'";
    sqlx::raw_sql(end).execute(sql).await.unwrap();
}

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_was_lost_is_found_and_counted() {
    let mut world = World::start(0).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    let debug_id = DebugId([7; 16]);
    store(&world, debug_id, 1..=3).await;
    publish(&world, debug_id).await;
    let mut sql = world.connect().await;
    sqlx::raw_sql("DELETE FROM jobs").execute(&mut sql).await.unwrap();
    sqlx::Connection::close(sql).await.unwrap();
    world.builder();
    world.until_gauge("unslide_builder_missed_wakes", 3).await;
    assert_eq!(requests_for(&mut requests, 3).await, [(id(1), 2), (id(2), 2), (id(3), 2)]);
    world.stop().await;
}
