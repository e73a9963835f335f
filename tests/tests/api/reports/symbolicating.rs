//! `POST /v1/symbolicate`, with the symcache of a real dSYM in object storage.

use crate::reports::{A, crash};
use crate::world::{World, report_json, tenant_id};
use flate2::{Compression, write::GzEncoder};
use reqwest::Method;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::Write;
use unslide_artifacts::{AliasMeta, Put, keys};
use unslide_model::{ContentHash, DebugId, Quality, Scope};
use unslide_proto::Message;
use unslide_proto::symbol::SymbolEvent;
use unslide_report::ReadLimits;
use unslide_store::slots;
use unslide_symbolicate::most_bytes;
use unslide_symbolicate::object::{BuiltSymCache, build_symcache, list_objects};
use unslide_symbolicate::symcache::{SYMCACHE_VERSION, SymCache};
use unslide_testkit::{fixtures, macho};

/// A real dSYM, published for a tenant as a builder does.
struct Published {
    debug_id: DebugId,
    text: u64,
    /// The start of a function, from the image's start, and the function's name.
    address: u64,
    function: String,
}

async fn publish(world: &World, of: &str) -> Published {
    let (built, app) = built();
    publish_built(world, of, &built).await;
    app
}

fn built() -> (BuiltSymCache, Published) {
    let file = std::fs::read(fixtures::dsym("app")).unwrap();
    let slice = list_objects(&file).unwrap().swap_remove(0).range;
    let built = build_symcache(&file[slice]).unwrap();
    let symcache = SymCache::parse(built.symcache.clone()).unwrap();
    let named = symcache.ranges().find_map(|(start, answer)| {
        let call = answer?.calls().next()?;
        call.line.map(|_| (start.0, call.function.decode().into_owned()))
    });
    let (address, function) = named.unwrap();
    let app = Published { debug_id: built.debug_id, text: symcache.text_address().0, address, function };
    (built, app)
}

async fn publish_built(world: &World, of: &str, built: &BuiltSymCache) {
    let sha256 = ContentHash(Sha256::digest(&built.symcache).into());
    let object = ContentHash([3; 32]);
    let meta = AliasMeta { generation: 1, quality: built.quality, sha256, object };
    let key = keys::for_symbols(tenant_id(of).scope(built.debug_id)).alias(SYMCACHE_VERSION);
    let put = Put { metadata: meta.to_metadata(), ..Put::default() };
    world.bucket().await.put(&key, built.symcache.clone().into(), &put).await.unwrap();
    let mut tx = world.store.tenant(&tenant_id(of)).await.unwrap();
    let published = slots::PublishedSymbols {
        debug_id: built.debug_id,
        quality: Quality::DwarfSymtab,
        content_hash: object,
        symcache_version: SYMCACHE_VERSION,
        generation: 1,
    };
    slots::publish_symbols(&mut tx, &published).await.unwrap();
    tx.commit().await.unwrap();
}

fn crash_in(app: &Published) -> Value {
    let mut crash = crash(A, "1.0");
    let load = app.text + 0x4000;
    let image = &mut crash["binary_images"][0];
    image["uuid"] = app.debug_id.to_string().into();
    image["image_addr"] = load.into();
    image["image_vmaddr"] = app.text.into();
    image["image_size"] = 0x0100_0000.into();
    let thread = &mut crash["crash"]["threads"][0];
    thread["registers"]["basic"]["pc"] = (load + app.address).into();
    thread["backtrace"]["contents"][0]["instruction_addr"] = (load + app.address).into();
    thread["backtrace"]["contents"][0]["object_addr"] = load.into();
    crash
}

#[tokio::test]
async fn a_report_comes_back_enriched_and_nothing_is_stored() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsRead, Scope::ReportsRead]).await;
    let app = publish(&world, "acme").await;
    let sent = crash_in(&app).to_string();
    let answer = world.post("/v1/symbolicate", &key, sent.clone()).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    let enriched = answer.parse_json();
    let frame = &enriched["crash"]["threads"][0]["backtrace"]["contents"][0]["symbolication"];
    assert_eq!(
        (&frame["status"], &frame["calls"][0]["function"]),
        (&"symbolicated".into(), &app.function.as_str().into())
    );
    assert_eq!(
        (&enriched["symbolication"]["status"], &enriched["symbolication"]["tenant"]),
        (&"complete".into(), &"acme".into())
    );
    let stripped =
        unslide_report::splice::strip_additions(answer.text.as_bytes(), &ReadLimits::default()).unwrap();
    assert_eq!(stripped, sent.as_bytes(), "every other byte is as it was");

    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(sent.as_bytes()).unwrap();
    let packed = world.request(Method::POST, "/v1/symbolicate", &key).header("accept", "text/plain");
    let text = world.send(packed.body(gzip.finish().unwrap())).await;
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");
    assert!(text.text.contains(&app.function), "{}", text.text);

    // Another tenant has no such symbols, whatever is in this machine's cache.
    let other = world.create_master_key("umbrella").await;
    let theirs = world.post("/v1/symbolicate", &other, sent).await.expect_status(200);
    assert_eq!(theirs["symbolication"]["missing"][0], app.debug_id.to_string());
    assert_eq!(world.read_sent_records(0).await.len(), 0);
    world.get(&format!("/v1/reports/{A}"), &key).await.expect_problem(404, "not-found");
    world.stop().await;
}

/// Tells of symbols that changed, as the builder's relay does.
async fn tell(world: &World, of: &str, app: &Published, generation: u64, deleted: bool) {
    let event = SymbolEvent {
        tenant: of.to_owned(),
        debug_id: app.debug_id.0.to_vec().into(),
        generation,
        deleted,
        ..SymbolEvent::default()
    };
    let topic = world.config.kafka.topic_names().symbol_events;
    let key = unslide_proto::keys::for_symbols(Some(&tenant_id(of)), &app.debug_id);
    let record = unslide_stream::OutRecord::for_topic(topic, event.encode_to_vec()).key(key);
    unslide_stream::Producer::new(&world.config.kafka).unwrap().send_record(&record).await.unwrap();
}

/// Once the event of a change is read, no earlier answer is given. This process does not ask the database.
/// Proves: late-symbols
#[tokio::test]
async fn symbols_that_come_late_or_are_deleted_count_as_soon_as_their_event_is_read() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsRead]).await;
    // It has the same symbols, and says where they are in a crash.
    let app = publish(&world, "umbrella").await;
    let sent = crash_in(&app);
    let status = async || {
        let answer = world.post_json("/v1/symbolicate", &key, &sent).await.expect_status(200);
        answer["symbolication"]["status"].as_str().unwrap().to_owned()
    };
    let until = async |wanted: &str| {
        for _ in 0..3_000 {
            if status().await == wanted {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("it is not {wanted}");
    };
    let before = status().await;
    assert_ne!(before, "complete");
    publish(&world, "acme").await;
    assert_eq!(status().await, before, "what is missing is remembered");
    tell(&world, "acme", &app, 1, false).await;
    until("complete").await;
    // Object storage still has them: a builder takes them out later.
    tell(&world, "acme", &app, 2, true).await;
    until(&before).await;
    world.stop().await;
}

#[tokio::test]
async fn what_is_no_report_is_refused() {
    let world = World::with(|limits| limits.report_bytes = 5_000).await;
    let key = world.create_master_key("acme").await;
    let detail = world.post("/v1/symbolicate", &key, "{\"a\" 1}").await.expect_problem(400, "invalid-report");
    assert!(detail.contains("at byte 5"), "{detail}");
    world.post("/v1/symbolicate", &key, "[1]").await.expect_problem(400, "not-a-report");
    world.post("/v1/symbolicate", &key, "{\"report\":{}}").await.expect_problem(400, "not-a-report");
    world.post("/v1/symbolicate", &key, " ".repeat(5_001)).await.expect_problem(413, "too-large");
    world
        .post("/v1/symbolicate", &key, b"\x1f\x8b damaged".to_vec())
        .await
        .expect_problem(400, "invalid-body");
    let image = world.request(Method::POST, "/v1/symbolicate", &key).header("accept", "image/png");
    world.send(image.body(report_json(A).to_string())).await.expect_problem(406, "not-acceptable");
    world.stop().await;
}

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// It may be of symbols that were deleted since, and no event of that has been read yet.
/// Proves: late-symbols
#[tokio::test]
async fn a_symcache_that_the_last_run_left_answers_only_where_object_storage_still_has_it() {
    let (built, app) = built();
    let world = World::configured(|config| {
        let folder = config.api.cache_dir.join(format!("v{SYMCACHE_VERSION}/acme"));
        std::fs::create_dir_all(&folder).unwrap();
        let sha256 = ContentHash(Sha256::digest(&built.symcache).into());
        let name = format!("{}.1.{sha256}.{}", built.debug_id.to_compact(), ContentHash([3; 32]));
        std::fs::write(folder.join(name), &built.symcache).unwrap();
    })
    .await;
    assert_eq!(files(&world.config.api.cache_dir).len(), 1, "it is one of the cache's files");
    let key = world.create_key("acme", &[Scope::SymbolsRead]).await;
    let answer = world.post_json("/v1/symbolicate", &key, &crash_in(&app)).await.expect_status(200);
    assert_eq!(answer["symbolication"]["missing"][0], app.debug_id.to_string());
    world.stop().await;
}

/// What this machine's disk holds of a tenant goes when the tenant is deleted, and another's stays.
/// Proves: deletion
#[tokio::test]
async fn a_deleted_tenants_symcaches_leave_the_disk() {
    let world = World::start().await;
    let cache = &world.config.api.cache_dir;
    let umbrella = publish(&world, "umbrella").await;
    let key = world.create_key("umbrella", &[Scope::SymbolsRead]).await;
    world.post_json("/v1/symbolicate", &key, &crash_in(&umbrella)).await.expect_status(200);
    let others = files(cache);
    let acme = publish(&world, "acme").await;
    let key = world.create_key("acme", &[Scope::SymbolsRead]).await;
    world.post_json("/v1/symbolicate", &key, &crash_in(&acme)).await.expect_status(200);
    assert!(files(cache).len() > others.len() && !others.is_empty());
    let without = async || {
        for _ in 0..3_000 {
            if files(cache) == others {
                return true;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        false
    };
    // As the builder's relay tells of it; this process did not delete the tenant itself.
    let config = unslide_proto::symbol::TenantConfig {
        tenant: "acme".into(),
        version: 2,
        state: unslide_proto::symbol::TenantState::Deleted.into(),
        ..Default::default()
    };
    let value = config.encode_to_vec();
    let record = unslide_stream::OutRecord::for_topic(world.config.kafka.topic_names().tenant_config, value)
        .key(unslide_proto::keys::for_tenant(&tenant_id("acme")));
    unslide_stream::Producer::new(&world.config.kafka).unwrap().send_record(&record).await.unwrap();
    assert!(without().await);
    // And where it did, before it has heard of it: no relay runs in this test.
    let stark = tenant_id("stark");
    let mut tx = world.store.tenant(&stark).await.unwrap();
    unslide_store::tenants::create_tenant(&mut tx, "stark", &Default::default()).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let (published, key) =
        (publish(&world, "stark").await, world.create_key("stark", &[Scope::SymbolsRead]).await);
    world.post_json("/v1/symbolicate", &key, &crash_in(&published)).await.expect_status(200);
    assert!(files(cache).len() > others.len());
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    world.delete("/v1/tenants/stark", &operator).await.expect_status(202);
    assert!(without().await);
    world.stop().await;
}

/// Proves: bounded-input
#[tokio::test]
async fn symbols_with_endless_names_make_no_answer_much_larger_than_the_report() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsRead]).await;
    let built = build_symcache(&macho::longest_chain(4_000)).unwrap();
    publish_built(&world, "acme", &built).await;
    let address = macho::CODE - macho::TEXT;
    let app = Published { debug_id: built.debug_id, text: macho::TEXT, address, function: "f255".to_owned() };
    let mut crash = crash_in(&app);
    let frames = &mut crash["crash"]["threads"][0]["backtrace"]["contents"];
    // Behind the first one are return addresses, one instruction after the call.
    let mut caller = frames[0].clone();
    caller["instruction_addr"] = (macho::TEXT + 0x4000 + address + 4).into();
    *frames = std::iter::once(frames[0].clone()).chain(vec![caller; 29]).collect();
    let sent = crash.to_string();
    let answer = world.post("/v1/symbolicate", &key, sent.clone()).await;
    assert!(answer.text.len() <= most_bytes(sent.len()), "{} for {}", answer.text.len(), sent.len());
    let enriched = answer.parse_json();
    assert_eq!(enriched["symbolication"]["truncated"], true);
    assert_eq!(enriched["symbolication"]["frames"]["symbolicated"], 30);
    let text = world.request(Method::POST, "/v1/symbolicate", &key).header("accept", "text/plain");
    let text = world.send(text.body(sent.clone())).await;
    assert!(text.text.len() <= most_bytes(sent.len()), "{}", text.text.len());
    world.stop().await;
}
