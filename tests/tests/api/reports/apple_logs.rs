//! Crash logs of Apple's: they are taken like reports, and answered in their own form.

use super::{A, arrival, crash, now, store, write};
use crate::world::{Answer, Browser, World, tenant_id};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_proto::headers;
use unslide_stream::Record;

/// The app of [`crash_log`].
const APP: &str = "com.example.shop";

/// A crash log with one frame in the app and one in a library of the system.
fn crash_log() -> String {
    let image = |path: &str, base: u64, uuid: &str| {
        json!({"source": "P", "arch": "arm64", "base": base, "size": 65_536, "uuid": uuid, "path": path,
               "name": path.rsplit('/').next()})
    };
    let header = json!({"app_name": "Shop", "bug_type": "309", "bundleID": APP, "app_version": "1.2",
        "build_version": "34", "os_version": "iPhone OS 18.3.1 (22D72)", "incident_id": A});
    let body = json!({"procName": "Shop", "pid": 7, "cpuType": "ARM-64", "faultingThread": 0, "incident": A,
        "exception": {"type": "EXC_BAD_ACCESS", "signal": "SIGSEGV", "rawCodes": [1, 8]},
        "threads": [{"id": 1, "triggered": true,
                     "frames": [{"imageIndex": 0, "imageOffset": 64}, {"imageIndex": 1, "imageOffset": 64}]}],
        "usedImages": [
            image("/private/var/containers/Bundle/Application/1/Shop.app/Shop", 4_294_967_296, super::IMAGE),
            image("/usr/lib/libobjc.A.dylib", 8_589_934_592, "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0")]});
    format!("{header}\n{}\n", serde_json::to_string_pretty(&body).unwrap())
}

/// The second JSON text of a log.
fn crash_of(log: &str) -> Value {
    serde_json::from_str(log.split_once('\n').unwrap().1).unwrap()
}

fn media_type(answer: &Answer) -> &str {
    answer.headers["content-type"].to_str().unwrap()
}

#[tokio::test]
async fn a_crash_log_of_apple_is_symbolicated_and_kept_in_its_own_form() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let log = crash_log();
    let enriched = world.post("/v1/symbolicate", &key, log.clone()).await;
    assert_eq!((enriched.status.as_u16(), media_type(&enriched)), (200, "application/octet-stream"));
    assert_eq!(enriched.text.lines().next(), log.lines().next());
    let answered = crash_of(&enriched.text);
    assert_eq!(answered["threads"][0]["frames"][0]["symbolication"]["status"], "missing", "{answered}");
    assert!(answered["symbolication"]["images"].is_array(), "{answered}");
    let (mut kept, _) = arrival(&tenant_id("acme"), &crash(A, "1.2"), 1, now(), None);
    kept.body = unslide_proto::body::compress_report(enriched.text.as_bytes());
    kept.size = enriched.text.len() as u64;
    write(&world, &tenant_id("acme"), kept).await;
    let path = format!("/v1/reports/{A}");
    let found = world.get(&path, &key).await;
    assert_eq!((media_type(&found), &found.text), ("application/octet-stream", &enriched.text));
    let text = world.request(Method::GET, &path, &key).header("accept", "text/plain");
    let text = world.send(text).await;
    assert_eq!(media_type(&text), "text/plain; charset=utf-8");
    assert!(text.text.contains("Thread 0 Crashed") && text.text.contains("Shop"), "{}", text.text);
    let explained = world.get(&format!("{path}/explain"), &key).await.expect_status(200);
    assert_eq!(explained["images"][0]["debug_id"], super::IMAGE);
    world.stop().await;
}

/// A crash log as text with one frame in the app.
fn crash_text() -> String {
    let image = super::IMAGE.replace('-', "").to_lowercase();
    format!(
        "Incident Identifier: {A}\nHardware Model:      iPhone16,1\nProcess:             Shop [7]\nIdentifier:          {APP}\n\
         Version:             1.2 (34)\nCode Type:           ARM-64\nReport Version:      104\n\n\
         Exception Type:  EXC_BAD_ACCESS (SIGSEGV)\nTriggered by Thread:  0\n\nThread 0 Crashed:\n\
         0   Shop                          \t0x0000000100000040 0x100000000 + 64\n\n\
         Binary Images:\n0x100000000 - 0x10000ffff Shop arm64  <{image}> /private/var/Shop\n"
    )
}

#[tokio::test]
async fn a_text_is_answered_as_a_text_or_with_its_answers_beside_it() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let log = crash_text();
    let answered = world.post("/v1/symbolicate", &key, log.clone()).await;
    assert_eq!(media_type(&answered), "application/json");
    let answered = answered.expect_status(200);
    assert_eq!(answered["text"], log);
    let frame = &answered["symbolication"]["answers"][0];
    assert_eq!((&frame["line"], &frame["symbolication"]["status"]), (&json!(13), &json!("missing")));
    let request = world.request(Method::POST, "/v1/symbolicate", &key).header("accept", "text/plain");
    let text = world.send(request.body(log.clone())).await;
    assert_eq!((text.status.as_u16(), media_type(&text)), (200, "text/plain; charset=utf-8"));
    for line in [format!("Incident Identifier: {}", A.to_uppercase()), "Thread 0 Crashed:".to_owned()] {
        assert!(text.text.contains(&line), "{line}: {}", text.text);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_crash_log_of_apple_is_taken_by_every_route_for_reports() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let log = crash_log();
    let sent = world.post("/v1/reports", &key, log.clone()).await.expect_status(202);
    assert_eq!(sent, json!({"accepted": 1, "reports": [{"id": A}], "refused": []}));
    let public = |apps: &[&str]| json!({"name": "app", "apps": apps});
    let of_app = world.post_json("/v1/public-keys", &key, &public(&[APP])).await.expect_status(201);
    let other =
        world.post_json("/v1/public-keys", &key, &public(&["com.example.bank"])).await.expect_status(201);
    let send = async |key: &Value, body: String| {
        let path = format!("/i/{}", key["key"].as_str().unwrap());
        let request = world.request(Method::POST, &path, "").header("accept", "application/json");
        world.send(request.body(body)).await.expect_status(202)
    };
    assert_eq!(send(&of_app, log.clone()).await["accepted"], json!([A]));
    assert_eq!(send(&other, log.clone()).await["refused"][0]["type"], "wrong_app");
    let header = format!("{}\n", log.lines().next().unwrap());
    assert_eq!(send(&of_app, header).await["refused"][0]["type"], "not_a_report");
    let sent = world.read_sent_records(4).await;
    let is_taken = |record: &&Record| record.headers.get_text(headers::REFUSED_REASON).is_none();
    let taken: Vec<_> = sent.iter().filter(is_taken).map(|record| record.value.as_deref()).collect();
    assert_eq!(taken, [Some(log.as_bytes()); 2], "byte for byte");
    let other_kind = log.replacen("309", "288", 1).replace("\"threads\"", "\"stacks\"");
    let refused = world.post("/v1/reports", &key, other_kind).await.expect_problem(400, "not-a-report");
    assert!(refused.contains("a stackshot"), "{refused}");
    world.stop().await;
}

#[tokio::test]
async fn the_words_of_a_tester_are_on_the_pages_of_the_report_and_of_its_group() {
    let world = World::start().await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let came_with_testflight = format!(
        "INSERT INTO testflight_submissions (tenant, submission, app, state, submitted_at, seen_at, next_try_at, report_id)
         VALUES ('acme', 'AAbbCC112233', '{APP}', 'sent', now(), now(), now(), '{A}');
         INSERT INTO testflight_comments (tenant, report_id, submission, app, comment, submitted_at, received_at)
         VALUES ('acme', '{A}', 'AAbbCC112233', '{APP}', 'It crashed <b>in</b> the cart.', now(), now())"
    );
    world.execute(&came_with_testflight).await;
    let group = world.text("SELECT group_id::text FROM reports").await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let report = browser.fetch_page(&format!("/console/reports/{A}")).await;
    assert!(report.contains("AAbbCC112233"), "{report}");
    let group = browser.fetch_page(&format!("/console/groups/{group}")).await;
    assert!(
        group.contains("Words of testers") && group.contains(&format!("/console/reports/{A}")),
        "{group}"
    );
    for page in [report, group] {
        assert!(page.contains("in&#60;/b&#62; the cart") || page.contains("in&lt;/b&gt; the cart"), "{page}");
    }
    world.stop().await;
}
