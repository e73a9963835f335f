//! What belongs to no operation: errors of the framework, ids, load, readiness, metrics, drain.

use crate::world::World;
use prometheus::{Encoder, TextEncoder};
use reqwest::Method;

#[tokio::test]
async fn errors_of_the_framework_are_problems_with_an_id() {
    let world = World::start().await;
    world.get("/v1/nothing", "").await.expect_problem(404, "not-found");
    let wrong = world.send(world.request(Method::PUT, "/v1/symbols", "")).await;
    assert_eq!(wrong.headers["allow"], "GET,HEAD,POST");
    wrong.expect_problem(405, "method-not-allowed");
    let asked = world.request(Method::GET, "/v1/symbols", "").header("x-request-id", "mine-1");
    assert_eq!(world.send(asked).await.headers["x-request-id"], "mine-1");
    let key = world.master("acme").await;
    world.post("/v1/symbols/check", &key, "{").await.expect_problem(400, "invalid-body");
    world.post("/v1/symbols/check", &key, " ".repeat(2 << 20)).await.expect_problem(413, "too-large");
    world.stop().await;
}

#[tokio::test]
async fn the_document_and_its_page_are_served_to_anyone() {
    let world = World::start().await;
    let document = world.get("/openapi.json", "").await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    let page = world.get("/docs", "").await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert!(!page.text.contains("https://"), "nothing is loaded from elsewhere");
    assert_eq!(world.get("/", "").await.text, page.text);
    world.stop().await;
}

#[tokio::test]
async fn readiness_asks_the_servers_and_names_the_one_that_is_away() {
    let mut world = World::start().await;
    let ready = world.host.health.check().await;
    assert!(ready.ready, "{ready:?}");
    assert_eq!(ready.probes.keys().collect::<Vec<_>>(), ["kafka", "objects", "postgres", "serving"]);
    let folder = tempfile::tempdir().unwrap();
    let other = unslide_embedded::S3Endpoint::start(folder.path(), "other").await.unwrap();
    std::mem::replace(&mut world.s3, other).stop().await;
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    let away = world.host.health.check().await;
    assert!(!away.ready && !away.probes["objects"].ok && away.probes["postgres"].ok, "{away:?}");
    // A client is told to come again, and not what is broken.
    let key = world.master("acme").await;
    let upload = world.post("/v1/symbols", &key, b"\xcf\xfa\xed\xfe".to_vec()).await;
    assert_eq!(upload.headers["retry-after"], "5");
    let body = upload.json();
    upload.expect_problem(503, "unavailable");
    assert_eq!(body.get("detail"), None);
    world.stop().await;
}

#[tokio::test]
async fn requests_are_counted_by_route_template() {
    let world = World::start().await;
    let key = world.master("acme").await;
    world.get("/v1/symbols/0f1e2d3c4b5a69788796a5b4c3d2e1f0", &key).await.expect_problem(404, "not-found");
    world.get("/v1/symbols", &key).await.expect(200);
    let mut text = Vec::new();
    TextEncoder::new().encode(&world.host.metrics.gather(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in [
        r#"unslide_api_requests_total{method="GET",route="/v1/symbols/{debug_id}",status="4xx"} 1"#,
        r#"unslide_api_requests_total{method="GET",route="/v1/symbols",status="2xx"} 1"#,
        r#"unslide_api_request_seconds_count{method="GET",route="/v1/symbols"} 1"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("acme") && !text.contains("0f1e2d3c"));
    world.stop().await;
}

#[tokio::test]
async fn too_many_requests_at_once_are_sent_away() {
    let world = World::with(|limits| limits.requests = 1).await;
    let key = world.master("acme").await;
    let upload = world.post("/v1/symbols", &key, b"\xcf\xfa\xed\xfe".to_vec()).await.expect(202);
    let waiting = format!("/v1/symbols/uploads/{}?wait=2s", upload["id"].as_str().unwrap());
    let (waited, refused) = tokio::join!(world.get(&waiting, &key), async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        world.get("/v1/symbols", &key).await
    });
    waited.expect(200);
    assert_eq!(refused.headers["retry-after"], "1");
    refused.expect_problem(503, "overloaded");
    world.stop().await;
}

#[tokio::test]
async fn too_many_uploads_at_once_are_sent_away() {
    let world = World::with(|limits| limits.uploads = 1).await;
    let key = world.master("acme").await;
    // One whose bytes do not come to an end until it is told so.
    let (more, bytes) = futures::channel::mpsc::unbounded::<Result<Vec<u8>, std::io::Error>>();
    more.unbounded_send(Ok(b"\xcf\xfa\xed\xfe first".to_vec())).unwrap();
    let slow =
        world.request(reqwest::Method::POST, "/v1/symbols", &key).body(reqwest::Body::wrap_stream(bytes));
    let figures = || {
        let mut text = Vec::new();
        TextEncoder::new().encode(&world.host.metrics.gather(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let (first, ()) = tokio::join!(world.send(slow), async {
        while !figures().contains(r#"unslide_api_in_work{kind="uploads"} 1"#) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let refused = world.post("/v1/symbols", &key, b"\xcf\xfa\xed\xfe second".to_vec()).await;
        assert_eq!(refused.headers["retry-after"], "5");
        refused.expect_problem(503, "overloaded");
        more.close_channel();
    });
    first.expect(202);
    world.post("/v1/symbols", &key, b"\xcf\xfa\xed\xfe second".to_vec()).await.expect(202);
    assert!(figures().contains(r#"unslide_api_in_work{kind="uploads"} 0"#));
    world.stop().await;
}
