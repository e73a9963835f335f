//! Lists as files.

use crate::reports::{crash, store};
use crate::world::{Answer, World};
use reqwest::Method;
use unslide_model::Scope;

/// More than a page of an export.
const REPORTS: usize = 120;

async fn filled() -> World {
    let world = World::start().await;
    let now = world.host.clock.now();
    for n in 0..REPORTS {
        let report = crash(&uuid::Uuid::from_u128(n as u128 + 1).to_string(), "=HYPERLINK(\"x\")\r\nnext");
        store(&world, "acme", &report, 1, now).await;
    }
    let mut other = crash("99999999-9999-9999-9999-999999999999", "umbrellas-own");
    other["system"]["CFBundleIdentifier"] = "umbrellas-own".into();
    store(&world, "umbrella", &other, 1, now).await;
    world
}

fn ids(answer: &Answer) -> Vec<String> {
    let lines = answer.text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.map(|line| line["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_whole_list_is_one_answer_with_the_lists_filters_and_rights() {
    let world = filled().await;
    let key = world.key("acme", &[Scope::ReportsRead]).await;
    let mut paged: Vec<String> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.get(&format!("/v1/reports?limit=100{cursor}"), &key).await.expect(200);
        paged.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged.len(), REPORTS);
    let accept = world.request(Method::GET, "/v1/reports", &key).header("accept", "application/x-ndjson");
    let whole = world.send(accept).await;
    assert_eq!(whole.headers["content-type"], "application/x-ndjson");
    assert_eq!(whole.headers["content-disposition"], "attachment; filename=\"reports.ndjson\"");
    assert_eq!(ids(&whole), paged);
    let rest = world.get(&format!("/v1/reports?format=ndjson{cursor}"), &key).await;
    assert_eq!(ids(&rest), paged[100..], "from the page at the cursor on");
    assert_eq!(ids(&world.get("/v1/reports?format=ndjson&limit=70", &key).await), paged[..70]);
    assert!(ids(&world.get("/v1/reports?format=ndjson&version=2.0", &key).await).is_empty());
    let csv = world.get("/v1/reports?format=csv", &key).await;
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8; header=present");
    let lines: Vec<&str> = csv.text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), REPORTS + 1, "a line of names, and one for each report");
    assert!(lines[0].starts_with("id,variant,revision,received_at,app,version,"));
    assert!(lines[1].contains(",\"'=HYPERLINK(\"\"x\"\")  next\","), "{}", lines[1]);
    assert!(!csv.text.contains("umbrellas-own"));
    let json = world.get("/v1/reports?format=json&limit=2", &key).await.expect(200);
    assert_eq!(json["items"].as_array().unwrap().len(), 2);
    // Nothing of the answers stays in memory.
    world.until("unslide_api_body_bytes{kind=\"answers\"}", 0.0).await;
    world.stop().await;
}

#[tokio::test]
async fn every_list_of_statistics_can_be_exported_and_refusals_are_problems() {
    let world = World::start().await;
    let now = world.host.clock.now();
    let report = crash("11111111-1111-1111-1111-111111111111", "1.0");
    let app = report["system"]["CFBundleIdentifier"].as_str().unwrap().to_owned();
    store(&world, "acme", &report, 1, now).await;
    let key = world.key("acme", &[Scope::ReportsRead]).await;
    for path in
        ["/v1/groups", "/v1/apps", &format!("/v1/apps/{app}/versions"), "/v1/missing-symbols?system=true"]
    {
        let mark = if path.contains('?') { '&' } else { '?' };
        let csv = world.get(&format!("{path}{mark}format=csv"), &key).await;
        assert_eq!((csv.status.as_u16(), csv.text.lines().count()), (200, 2), "{path}: {}", csv.text);
    }
    for (path, status, slug) in [
        ("/v1/reports?format=xml", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&format=csv", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&limit=0", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&limit=1000001", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&cursor=00", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&group=none", 400, "invalid-parameter"),
        ("/v1/apps/com.example.none/versions?format=csv", 404, "not-found"),
        ("/v1/apps/com.example.none/health?format=csv", 404, "not-found"),
        ("/v1/apps/com.example.none/health?format=csv&cursor=00", 400, "invalid-parameter"),
    ] {
        world.get(path, &key).await.expect_problem(status, slug);
    }
    world.get("/v1/reports?format=csv", "").await.expect_problem(401, "unauthorized");
    let writer = world.key("acme", &[Scope::ReportsWrite]).await;
    world.get("/v1/reports?format=csv", &writer).await.expect_problem(403, "insufficient-scope");
    let only = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.other")).await;
    assert!(world.get("/v1/reports?format=ndjson", &only).await.text.is_empty());
    let head = world.send(world.request(Method::HEAD, "/v1/reports?format=csv", &key)).await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
    world.stop().await;
}
