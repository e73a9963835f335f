//! Captures: sent, listed, read and deleted. What a builder does is done by hand.

use crate::world::Browser;
use crate::world::{Answer, World, tenant_id};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::io::Write;
use unslide_artifacts::Put;
use unslide_captures::capture::{CaptureAnalysis, CaptureForm, MallocLayout, analyse_capture};
use unslide_captures::{CaptureKeys, store as captures};
use unslide_model::Scope;

const APP: &str = "com.example.shop";
const STACKS: &str = "main;draw <b>everything</b> 3\nmain;load 1\n";

/// A capture of a tenant that a builder has analysed.
pub async fn analysed(world: &World, of: &str, key: &str) -> String {
    analysed_stacks(world, of, key, STACKS).await
}

async fn analysed_stacks(world: &World, of: &str, key: &str, stacks: &'static str) -> String {
    let path = format!("/v1/captures?app={APP}&version=1.0&kind=profile");
    let sent = world.post(&path, key, stacks).await.expect_status(202);
    let id = sent["id"].as_str().unwrap().to_owned();
    analyse_as_builder(world, of, &id, &of_stacks(stacks)).await;
    id
}

fn of_stacks(stacks: &'static str) -> CaptureAnalysis {
    analyse_capture(&CaptureForm::Profile, &|_| stacks.as_bytes(), &|_| None).unwrap().analysis
}

#[tokio::test]
async fn a_file_of_a_capture_is_given_back_as_it_was_sent() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsWrite, Scope::ReportsRead]).await;
    let id = analysed(&world, "acme", &key).await;
    let file = world.get(&format!("/v1/captures/{id}/files/file"), &key).await;
    assert_eq!((file.status.as_u16(), file.text.as_str()), (200, STACKS));
    assert_eq!(file.headers["content-type"], "application/octet-stream");
    world.get(&format!("/v1/captures/{id}/files/events"), &key).await.expect_problem(404, "not-found");
    world.stop().await;
}

pub async fn analyse_as_builder(world: &World, of: &str, id: &str, analysis: &CaptureAnalysis) {
    let tenant = tenant_id(of);
    let id: captures::CaptureId = id.parse().unwrap();
    let mut tx = world.store.tenant(&tenant).await.unwrap();
    let run = captures::begin(&mut tx, id).await.unwrap().unwrap().capture.run;
    tx.commit().await.unwrap();
    let json = Bytes::from(serde_json::to_vec(analysis).unwrap());
    let key = CaptureKeys::new(&tenant, id).analysis(run);
    world.bucket().await.put(&key, json, &Put::default()).await.unwrap();
    let tree = &analysis.tree;
    let mut summary = json!({"unit": tree.unit, "weight": tree.weight, "count": tree.count, "lacking": 0});
    if let Some(graph) = &analysis.graph {
        summary["source"] = json!(graph.source);
    }
    let mut tx = world.store.tenant(&tenant).await.unwrap();
    captures::finish(&mut tx, id, run, &summary, &[]).await.unwrap();
    tx.commit().await.unwrap();
}

/// A log of allocations as a form with these files.
async fn send_log(world: &World, key: &str, query: &str, files: &[(&str, &str)]) -> Answer {
    let mut body = String::new();
    for (name, content) in files {
        body.push_str(&format!(
            "--x\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\r\n{content}\r\n"
        ));
    }
    body.push_str("--x--\r\n");
    let path = format!("/v1/captures?app={APP}&{query}");
    let request = world.request(Method::POST, &path, key);
    world.send(request.header("content-type", "multipart/form-data; boundary=x").body(body)).await
}

#[tokio::test]
async fn a_capture_is_stored_once_and_goes_with_all_that_is_stored_of_it() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let path = format!("/v1/captures?app={APP}&kind=profile");
    let answer = world.post(&path, &key, STACKS).await;
    let location = answer.headers["location"].to_str().unwrap().to_owned();
    let sent = answer.expect_status(202);
    assert_eq!(
        (&sent["existing"], location.as_str()),
        (&json!(false), &*format!("/v1/captures/{}", sent["id"].as_str().unwrap()))
    );
    let again = world.post(&path, &key, STACKS).await.expect_status(202);
    assert_eq!((&again["id"], &again["existing"]), (&sent["id"], &json!(true)));
    let other = world.post("/v1/captures?app=other&kind=profile", &key, STACKS).await.expect_status(202);
    assert_ne!(other["id"], sent["id"], "another app's");
    let waiting = world.get(&location, &key).await.expect_status(200);
    assert_eq!((&waiting["state"], &waiting["analysis"]), (&json!("queued"), &Value::Null));
    assert_eq!(world.list_objects("acme").await.len(), 2, "the second copy is gone");
    assert_eq!(world.number("SELECT count(*) FROM jobs WHERE kind = 'analyse'").await, 2);

    let id = sent["id"].as_str().unwrap();
    analyse_as_builder(&world, "acme", id, &of_stacks(STACKS)).await;
    let ready = world.get(&location, &key).await.expect_status(200);
    assert_eq!((&ready["state"], &ready["summary"]["weight"]), (&json!("ready"), &json!(4)));
    assert_eq!(ready["analysis"]["tree"]["nodes"][0]["name"], "main");
    let listed = world.get(&format!("/v1/captures?app={APP}&limit=1"), &key).await.expect_status(200);
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["id"]), (1, &sent["id"]));
    assert!(listed["items"][0]["analysis"].is_null() && listed["next_cursor"].is_null());
    let first = world.get("/v1/captures?limit=1", &key).await.expect_status(200);
    let next = format!("/v1/captures?limit=1&cursor={}", first["next_cursor"].as_str().unwrap());
    let second = world.get(&next, &key).await.expect_status(200);
    assert_ne!(first["items"][0]["id"], second["items"][0]["id"]);
    assert!(second["next_cursor"].is_null());

    let shop = world.key_for("acme", &Scope::ALL, Some("com.example.bank")).await;
    world.get(&location, &shop).await.expect_problem(404, "not-found");
    world.delete(&location, &shop).await.expect_problem(404, "not-found");
    let refused = world.post(&path, &shop, STACKS).await;
    refused.expect_problem(403, "insufficient-scope");
    assert_eq!(world.delete(&location, &key).await.status, 204);
    world.get(&location, &key).await.expect_problem(404, "not-found");
    let condemned = format!("SELECT count(*) FROM condemned_objects WHERE key LIKE '%{id}%'");
    assert_eq!(world.number(&condemned).await, 2, "the file and its analysis");
    world.stop().await;
}

#[tokio::test]
async fn a_log_comes_with_its_files_and_says_how_it_is_laid_out() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let files = [("events", "e"), ("stacks", "s"), ("images", "i")];
    let sent = send_log(&world, &key, "kind=malloc_log&layout=index&from=1", &files).await.expect_status(202);
    let path = format!("/v1/captures/{}", sent["id"].as_str().unwrap());
    let found = world.get(&path, &key).await.expect_status(200);
    assert_eq!(
        (&found["kind"], &found["layout"], &found["size"]),
        (&json!("malloc_log"), &json!("index"), &json!(3))
    );
    let reordered = [files[2], files[0], files[1]];
    let again =
        send_log(&world, &key, "kind=malloc_log&layout=index&from=1", &reordered).await.expect_status(202);
    assert_eq!(again["existing"], true, "whatever the order of its files");
    let otherwise =
        send_log(&world, &key, "kind=malloc_log&layout=disk", &files[..2]).await.expect_status(202);
    assert_eq!(otherwise["existing"], false, "read in another way it is another capture");

    for (query, files, word) in [
        ("kind=malloc_log&layout=index", &files[..1], "no file stacks"),
        ("kind=malloc_log&layout=index", &[files[0], files[0]][..], "twice"),
        ("kind=malloc_log&layout=index", &[("other", "x")][..], "something else"),
        ("kind=malloc_log&layout=index", &[("events", ""), ("stacks", "s")][..], "events is empty"),
    ] {
        let detail = send_log(&world, &key, query, files).await.expect_problem(400, "invalid-upload");
        assert!(detail.contains(word), "{detail}");
    }
    for query in [
        "kind=malloc_log",
        "kind=profile&layout=index",
        "kind=other",
        "kind=profile&from=1",
        "kind=profile&at=1",
        "kind=malloc_log&layout=index&from=2&at=1",
    ] {
        send_log(&world, &key, query, &files).await.expect_problem(400, "invalid-parameter");
    }
    let alone = world.post(&format!("/v1/captures?app={APP}&kind=malloc_log&layout=index"), &key, "x").await;
    alone.expect_problem(400, "invalid-upload");
    world.post("/v1/captures?kind=profile", &key, "x").await.expect_problem(400, "invalid-parameter");
    assert_eq!(world.number("SELECT count(*) FROM captures").await, 2);
    assert_eq!(world.list_objects("acme").await.len(), 5, "what was refused has left nothing");
    world.stop().await;
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_packed_capture_is_the_same_as_one_that_is_not() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let path = format!("/v1/captures?app={APP}&kind=profile");
    let first = world.post(&path, &key, STACKS).await.expect_status(202);
    let zstd = zstd::encode_all(STACKS.as_bytes(), 3).unwrap();
    for (coding, body) in
        [("identity", gzip(STACKS.as_bytes())), ("gzip", gzip(STACKS.as_bytes())), ("zstd", zstd.clone())]
    {
        let request = world.request(Method::POST, &path, &key).header("content-encoding", coding);
        let sent = world.send(request.body(body)).await.expect_status(202);
        assert_eq!((&sent["id"], &sent["existing"]), (&first["id"], &json!(true)), "{coding}");
    }
    let path = format!("/v1/captures?app={APP}&kind=malloc_log&layout=disk");
    let plain = send_log(&world, &key, "kind=malloc_log&layout=disk", &[("events", "e"), ("stacks", "s")]);
    let plain = plain.await.expect_status(202);
    let form = [
        &b"--x\r\nContent-Disposition: form-data; name=\"events\"; filename=\"e.gz\"\r\n\r\n"[..],
        &gzip(b"e"),
        b"\r\n--x\r\nContent-Disposition: form-data; name=\"stacks\"; filename=\"s\"\r\n\r\ns\r\n--x--\r\n",
    ]
    .concat();
    let request = || {
        let request = world.request(Method::POST, &path, &key);
        request.header("content-type", "multipart/form-data; boundary=x")
    };
    let sent = world.send(request().body(form.clone())).await.expect_status(202);
    assert_eq!((&sent["id"], &sent["existing"]), (&plain["id"], &json!(true)));
    let both = request().header("content-encoding", "gzip").body(gzip(&form));
    let detail = world.send(both).await.expect_problem(400, "invalid-upload");
    assert!(detail.contains("not both"), "{detail}");
    world.stop().await;
}

#[tokio::test]
async fn unpacked_a_capture_is_under_the_limits_of_one_that_is_not() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let limits = unslide_store::tenants::QuotaLimits { upload_bytes: 100_000, ..Default::default() };
    world.change_limits("acme", &limits).await;
    let path = format!("/v1/captures?app={APP}&kind=profile");
    let large = gzip(&b"main;draw 1\n".repeat(10_000));
    assert!(large.len() < 10_000);
    world.post(&path, &key, large.clone()).await.expect_problem(413, "too-large");
    let request = |coding| world.request(Method::POST, &path, &key).header("content-encoding", coding);
    world.send(request("gzip").body(large.clone())).await.expect_problem(413, "too-large");
    world.send(request("br").body("x")).await.expect_problem(415, "unsupported-format");
    let damaged = gzip(STACKS.as_bytes());
    let damaged = damaged[..damaged.len() - 4].to_vec();
    world.send(request("gzip").body(damaged)).await.expect_problem(400, "invalid-upload");
    world.send(request("gzip").body(STACKS)).await.expect_problem(400, "invalid-upload");
    assert_eq!(world.list_objects("acme").await.len(), 0);
    world.stop().await;
}

#[tokio::test]
async fn a_form_sends_captures() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    assert!(browser.fetch_page("/console/captures").await.contains("/console/captures/upload"));
    let upload = async |form: Form| {
        let request = browser.request(Method::POST, "/console/captures/upload");
        browser.send(request.header("sec-fetch-site", "same-origin").multipart(form)).await
    };
    let file = |name: &str, bytes: &[u8]| Part::bytes(bytes.to_vec()).file_name(name.to_owned());
    let profile = || Form::new().text("app", APP).text("version", "").text("kind", "profile");
    let sent = upload(profile().part("file", file("hang.txt.gz", &gzip(STACKS.as_bytes())))).await;
    let page = sent.headers["location"].to_str().unwrap().to_owned();
    assert!(browser.fetch_page(&page).await.contains("queued"));
    let known =
        world.post(&format!("/v1/captures?app={APP}&kind=profile"), &key, STACKS).await.expect_status(202);
    assert_eq!(page, format!("/console/captures/{}", known["id"].as_str().unwrap()));

    let log = Form::new().text("kind", "malloc_log").text("app", APP).text("layout", "index");
    let log = log.text("lite", "true").part("events", file("e", b"e")).part("stacks", file("s", b"s"));
    // So a browser sends a file that was not chosen.
    assert_eq!(upload(log.part("images", file("", b""))).await.status, 303);
    let form = browser.fetch_page("/console/captures?kind=malloc_log").await;
    assert!(form.contains("Log of allocations</a>"), "{form}");

    assert_eq!(upload(profile()).await.status, 400);
    assert_eq!(upload(profile().text("layout", "index").part("file", file("f", b"f"))).await.status, 400);
    assert_eq!(
        upload(profile().text("from", "x".repeat(2_000)).part("file", file("f", b"f"))).await.status,
        400
    );
    let foreign = browser.request(Method::POST, "/console/captures/upload").body("");
    assert_ne!(browser.send(foreign.header("sec-fetch-site", "cross-site")).await.status, 303);
    let reader = world.key_for("acme", &[Scope::ReportsRead], None).await;
    let page = Browser::signed_in(&world, &reader).await.fetch_page("/console/captures").await;
    assert!(!page.contains("/console/captures/upload"));
    world.stop().await;
}

#[tokio::test]
async fn captures_count_as_what_a_tenant_stores() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let limits = unslide_store::tenants::QuotaLimits { symbol_bytes: 50, ..Default::default() };
    world.change_limits("acme", &limits).await;
    let path = format!("/v1/captures?app={APP}&kind=profile");
    world.post(&path, &key, "main;draw 31\n".repeat(3)).await.expect_status(202);
    world.post(&path, &key, "main;draw 32\n".repeat(3)).await.expect_problem(507, "symbol-quota");
    assert_eq!(world.list_objects("acme").await.len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_capture_has_a_page_and_is_deleted_from_it() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let id = analysed(&world, "acme", &key).await;
    let browser = Browser::signed_in(&world, &key).await;
    let list = browser.fetch_page("/console/captures?kind=profile").await;
    assert!(list.contains(&id) && list.contains("4 samples"), "{list}");
    let path = format!("/console/captures/{id}");
    let page = browser.fetch_page(&path).await;
    for part in ["<svg", "Heaviest path", "Top functions", "draw &lt;b&gt;everything&lt;/b&gt;", "75.0 %"] {
        assert!(page.replace("&#60;", "&lt;").replace("&#62;", "&gt;").contains(part), "{part} in {page}");
    }
    let other = Browser::signed_in(&world, &world.create_master_key("umbrella").await).await;
    assert_eq!(other.send(other.request(Method::GET, &path)).await.status, 404);
    browser.submit_form(&format!("{path}/delete")).await;
    assert!(!browser.fetch_page("/console/captures").await.contains(&id));
    world.stop().await;
}

#[tokio::test]
async fn two_captures_of_a_kind_are_compared() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let before = analysed(&world, "acme", &key).await;
    let after = analysed_stacks(&world, "acme", &key, "main;draw <b>everything</b> 3\nmain;load 5\n").await;
    let path = format!("/v1/captures/{after}/compare/{before}");
    let found = world.get(&path, &key).await.expect_status(200);
    assert_eq!((&found["before"]["id"], &found["after"]["id"]), (&json!(before), &json!(after)));
    let (change, grown) = (&found["change"], &found["change"]["paths"][0]);
    assert_eq!(
        (&change["unit"], &change["before"], &change["after"]),
        (&json!("samples"), &json!(4), &json!(8))
    );
    assert_eq!(change["paths"].as_array().unwrap().len(), 1, "{change}");
    assert_eq!(
        (&grown["functions"], &grown["weight_before"], &grown["weight_after"]),
        (&json!(["load", "main"]), &json!(1), &json!(5))
    );
    let same = world.get(&format!("/v1/captures/{after}/compare/{after}"), &key).await.expect_status(200);
    assert_eq!(same["change"]["paths"], json!([]));

    let waiting = world.post(&format!("/v1/captures?app={APP}&kind=profile"), &key, "main;wait 1\n").await;
    let waiting = waiting.expect_status(202)["id"].as_str().unwrap().to_owned();
    let foreign = world.post("/v1/captures?app=other&kind=profile", &key, STACKS).await.expect_status(202);
    for (other, word) in
        [(waiting.as_str(), "no analysis yet"), (foreign["id"].as_str().unwrap(), "no profile of")]
    {
        let answer = world.get(&format!("/v1/captures/{after}/compare/{other}"), &key).await;
        let detail = answer.expect_problem(400, "invalid-parameter");
        assert!(detail.contains(word), "{detail}");
    }
    for (path, word) in [
        (format!("/v1/captures/{after}/compare/x"), "other: "),
        (format!("/v1/captures/x/compare/{before}"), "id: "),
    ] {
        let detail = world.get(&path, &key).await.expect_problem(400, "invalid-parameter");
        assert!(detail.starts_with(word), "{detail}");
    }
    let bank = world.key_for("acme", &Scope::ALL, Some("com.example.bank")).await;
    world.get(&path, &bank).await.expect_problem(404, "not-found");
    let umbrella = world.create_master_key("umbrella").await;
    world.get(&path, &umbrella).await.expect_problem(404, "not-found");

    let browser = Browser::signed_in(&world, &key).await;
    let link = format!("/console/captures/{after}/compare/{before}");
    assert!(browser.fetch_page(&format!("/console/captures/{after}")).await.contains(&link));
    assert!(!browser.fetch_page(&format!("/console/captures/{before}")).await.contains("/compare/"));
    let page = browser.fetch_page(&link).await;
    for part in ["<svg", "what has changed", "load", "+37.5 points", "4 samples", "8 samples"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    world.stop().await;
}

pub async fn analysed_graph(world: &World, key: &str, text: &'static str) -> String {
    let sent =
        world.post(&format!("/v1/captures?app={APP}&kind=memory_graph"), key, text).await.expect_status(202);
    let id = sent["id"].as_str().unwrap().to_owned();
    let analysis =
        analyse_capture(&CaptureForm::MemoryGraph, &|_| text.as_bytes(), &|_| None).unwrap().analysis;
    analyse_as_builder(world, "acme", &id, &analysis).await;
    id
}

#[tokio::test]
async fn graphs_of_memory_are_compared_with_their_like() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let before = analysed_graph(&world, &key, "COUNT BYTES AVG CLASS_NAME\n1 16 16.0 Cart\n").await;
    let opaque = analysed_graph(&world, &key, "bplist00\u{1}").await;
    let after = analysed_graph(&world, &key, "COUNT BYTES AVG CLASS_NAME\n3 48 16.0 Cart\n").await;
    let last = analysed_graph(&world, &key, "bplist00\u{2}").await;
    let browser = Browser::signed_in(&world, &key).await;
    let page = browser.fetch_page(&format!("/console/captures/{after}")).await;
    assert!(page.contains(&format!("/console/captures/{after}/compare/{before}")), "{page}");
    assert!(!page.contains(&format!("/compare/{opaque}")), "{page}");
    for none in [&opaque, &last] {
        assert!(!browser.fetch_page(&format!("/console/captures/{none}")).await.contains("/compare/"));
    }
    for (id, other, name) in [(&after, &opaque, "other: "), (&opaque, &before, "id: ")] {
        let answer = world.get(&format!("/v1/captures/{id}/compare/{other}"), &key).await;
        let detail = answer.expect_problem(400, "invalid-parameter");
        assert!(detail.starts_with(name) && detail.contains("opaque"), "{detail}");
    }
    world.stop().await;
}

/// 400 allocations of 16 bytes by one stack, at addresses in no order.
fn log_of_allocations() -> CaptureAnalysis {
    let words = |at: u64| [16, (0x6000_0000 + at * 7_919 % 401 * 0x40) ^ 0x5555, 2, 2];
    let events: Vec<u8> = (0..400).flat_map(words).flat_map(u64::to_le_bytes).collect();
    let slots = [[0, 0], [0x104, u64::MAX], [0x1010, 1]];
    let stacks: Vec<u8> = slots.into_iter().flatten().flat_map(u64::to_le_bytes).collect();
    let form = CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: None, from: None };
    let file = |name: &str| match name {
        "events" => &events[..],
        "stacks" => &stacks[..],
        _ => &[],
    };
    analyse_capture(&form, &file, &|_| None).unwrap().analysis
}

#[tokio::test]
async fn the_page_of_a_log_shows_growth_between_two_events() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let files = [("events", "e"), ("stacks", "s")];
    let sent = send_log(&world, &key, "kind=malloc_log&layout=index", &files).await.expect_status(202);
    let id = sent["id"].as_str().unwrap();
    let analysis = log_of_allocations();
    let events = &analysis.memory.as_ref().unwrap().history.as_ref().unwrap().events;
    assert_eq!((events.first(), events.last()), (Some(&64), Some(&400)));
    analyse_as_builder(&world, "acme", id, &analysis).await;
    let browser = Browser::signed_in(&world, &key).await;
    let path = format!("/console/captures/{id}");
    let page = browser.fetch_page(&path).await;
    for part in [
        "<h2>History</h2>",
        "Growth between two events",
        "Live memory over time",
        "+5.3 KiB",
        "<option value=\"64\" selected>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let page = browser.fetch_page(&format!("{path}?from=400&to=64")).await;
    assert!(page.contains("\u{2212}5.3 KiB") && !page.contains("+5.3 KiB"), "{page}");
    let page = browser.fetch_page(&format!("{path}?from=64&to=64")).await;
    assert!(page.contains("Live memory over time") && !page.contains("Growth between two events"), "{page}");
    let wrong = browser.request(Method::GET, &format!("{path}?from=x"));
    assert_eq!(browser.send(wrong).await.status, 400);
    world.stop().await;
}
