//! The operations about caps, and how a report without a body is answered and shown.

use crate::body_cap::fixture::{complete_report, id};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_harness::database::start;
use unslide_model::Scope;
use unslide_store::partitions;
use unslide_store::reports::{Arrival, Effects, store_arrivals};
use unslide_world::{Browser, World, tenant_id, wait_until};

async fn start_world() -> (World, String) {
    let features = [unslide_console::feature(), unslide_body_cap::feature()];
    let world = World::start(unslide_feature::for_api(&features), |_| {}).await;
    let key = world.create_key("acme", &[Scope::ReportsRead, Scope::TenantAdmin]).await;
    (world, key)
}

async fn set_cap(world: &World, key: &str, body: &Value) -> unslide_world::Answer {
    let request = world.request(Method::PUT, "/v1/body-cap", key);
    world.send(request.header("content-type", "application/json").body(body.to_string())).await
}

#[tokio::test]
async fn an_administrator_sets_changes_and_removes_caps() {
    let (world, key) = start_world().await;
    let caps = |answer: &Value| -> Vec<(String, u64)> {
        let items = answer["items"].as_array().unwrap().iter();
        items.map(|cap| (cap["app"].as_str().unwrap().to_owned(), cap["bodies"].as_u64().unwrap())).collect()
    };
    assert_eq!(world.get("/v1/body-cap", &key).await.expect_status(200), json!({"items": []}));
    let first = set_cap(&world, &key, &json!({"bodies": 200})).await.expect_status(200);
    set_cap(&world, &key, &json!({"app": "com.example.shop", "bodies": 50})).await.expect_status(200);
    let changed = set_cap(&world, &key, &json!({"bodies": 100})).await.expect_status(200);
    assert_eq!(caps(&changed), [(String::new(), 100), ("com.example.shop".to_owned(), 50)]);
    // A change holds for the same reports as before.
    assert_eq!(first["items"][0]["since"], changed["items"][0]["since"]);
    for wrong in
        [json!({"bodies": 0}), json!({"bodies": 1_001}), json!({"app": "a".repeat(256), "bodies": 5})]
    {
        set_cap(&world, &key, &wrong).await.expect_problem(400, "invalid-body");
    }
    let left = set_cap(&world, &key, &json!({"bodies": null})).await.expect_status(200);
    assert_eq!(caps(&left), [("com.example.shop".to_owned(), 50)]);
    let other = world.create_key("umbrella", &[Scope::TenantAdmin]).await;
    assert_eq!(world.get("/v1/body-cap", &other).await.expect_status(200), json!({"items": []}));
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    world.get("/v1/body-cap", &reader).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

/// An enriched report that can be read.
fn readable_report(n: u16) -> Arrival {
    let json = json!({
        "report": {"id": id(n).to_string()},
        "system": {"CFBundleIdentifier": "com.acme.shop"},
        "crash": {"error": {"type": "mach", "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": 1}},
            "threads": []},
    })
    .to_string();
    let ours = json!({"version": 1, "engine": "unslide/0.1.0", "status": "complete", "images": []});
    let json = format!("{},\"symbolication\":{ours}}}", json.strip_suffix('}').unwrap());
    let body = unslide_proto::body::compress_report(json.as_bytes());
    Arrival { size: json.len() as u64, body, images: Vec::new(), ..complete_report(n, 1) }
}

#[tokio::test]
async fn a_report_without_a_body_is_listed_and_names_one_that_is_like_it() {
    let (world, key) = start_world().await;
    set_cap(&world, &key, &json!({"bodies": 3})).await.expect_status(200);
    // The cap holds since long ago.
    let early = start() - time::Duration::DAY;
    let prepared = format!("UPDATE body_caps SET since = '{early}'");
    world.execute(&prepared).await;
    let day = start().date();
    partitions::ensure_partitions(&world.store, day, day).await.unwrap();
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let reports: Vec<Arrival> = (0..10).map(readable_report).collect();
    store_arrivals(&mut tx, &reports, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    for table in ["report_bodies", "reports"] {
        world.execute(&format!("UPDATE {table} SET stored_at = stored_at - interval '1 hour'")).await;
    }
    let due = format!("UPDATE body_cap_turns SET swept_to = '{early}', next_at = now()");
    let is_capped = async || {
        world.execute(&due).await;
        world.number("SELECT count(*) FROM report_bodies").await == 3
    };
    assert!(wait_until(is_capped).await, "the bodies over the cap are dropped");

    let listed = world.get("/v1/reports?limit=100", &key).await.expect_status(200);
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), 10);
    let four = items.iter().find(|item| item["id"] == id(4).to_string()).unwrap();
    assert_eq!((&four["body_dropped"], &four["like_report"]), (&json!(true), &json!(id(1).to_string())));
    let path = format!("/v1/reports/{}", id(4));
    for form in ["", "?format=text", "?format=markdown", "/explain"] {
        let answer = world.get(&format!("{path}{form}"), &key).await;
        let row = answer.parse_json()["report"].clone();
        let detail = answer.expect_problem(410, "body-not-kept");
        assert!(detail.contains("not kept (cap of 3 a day)"), "{detail}");
        assert!(detail.contains(&format!(", see report {}", id(1))), "{detail}");
        assert_eq!((&row["id"], &row["like_report"]), (&four["id"], &four["like_report"]));
    }
    world.get(&format!("/v1/reports/{}", id(1)), &key).await.expect_status(200);
    let other = world.create_key("umbrella", &[Scope::ReportsRead]).await;
    world.get(&path, &other).await.expect_problem(404, "not-found");

    let browser = Browser::signed_in(&world, &key).await;
    let page = browser.fetch_page(&format!("/console/reports/{}", id(4))).await;
    assert!(page.contains("Body: not kept (cap of 3 a day)"), "{page}");
    assert!(page.contains(&format!("/console/reports/{}", id(1))), "{page}");
    let group = four["group"].as_str().unwrap();
    let page = browser.fetch_page(&format!("/console/groups/{group}")).await;
    assert!(page.contains("10"), "{page}");
    let markdown = world.get(&format!("/v1/groups/{group}?format=markdown"), &key).await;
    assert!(
        markdown.status.is_success() && markdown.text.contains("Representative report"),
        "{}",
        markdown.text
    );
    world.stop().await;
}
