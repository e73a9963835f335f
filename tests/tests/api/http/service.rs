//! What belongs to no operation: errors of the framework, ids, load, readiness, metrics, drain.

use crate::world::{World, slow_body};
use prometheus::{Encoder, TextEncoder};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use reqwest::Method;
use std::time::Duration;
use unslide_runtime::health::Readiness;
use unslide_stream::admin;
use unslide_testkit::servers;

#[tokio::test]
async fn errors_of_the_framework_are_problems_with_an_id() {
    let world = World::start().await;
    world.get("/v1/nothing", "").await.expect_problem(404, "not-found");
    let wrong = world.send(world.request(Method::PUT, "/v1/symbols", "")).await;
    assert_eq!(wrong.headers["allow"], "GET,HEAD,POST");
    wrong.expect_problem(405, "method-not-allowed");
    let asked = world.request(Method::GET, "/v1/symbols", "").header("x-request-id", "mine-1");
    assert_eq!(world.send(asked).await.headers["x-request-id"], "mine-1");
    let key = world.create_master_key("acme").await;
    world.post("/v1/symbols/check", &key, "{").await.expect_problem(400, "invalid-body");
    world.post("/v1/symbols/check", &key, " ".repeat(2 << 20)).await.expect_problem(413, "too-large");
    world.stop().await;
}

#[tokio::test]
async fn the_document_and_its_page_are_served_to_anyone() {
    let world = World::start().await;
    let document = world.get("/openapi.json", "").await.expect_status(200);
    assert_eq!(document["openapi"], "3.1.0");
    let page = world.get("/docs", "").await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    // Each has its hash: another script or style would need one, too.
    for inline in ["<script", "<style"] {
        assert_eq!(page.text.matches(inline).count(), 1, "{inline}");
    }
    assert!(!page.text.contains(" style=\"") && policy.matches("'sha256-").count() == 2, "{policy}");
    assert_eq!(page.headers["x-frame-options"], "DENY");
    assert!(!page.text.contains("https://"), "nothing is loaded from elsewhere");
    let first = world.get("/", "").await;
    assert!(first.text.contains("<h1>Sign in</h1>"), "the console: {}", first.text);
    world.stop().await;
}

#[tokio::test]
async fn every_type_of_a_problem_is_a_page_that_anyone_may_read() {
    let world = World::start().await;
    let problem = world.get("/v1/symbols", "").await;
    let kind = problem.parse_json()["type"].as_str().unwrap().to_owned();
    let page = world.get(&kind, "").await;
    assert_eq!(
        (page.status.as_u16(), &page.headers["content-type"]),
        (200, &"text/html; charset=utf-8".parse().unwrap())
    );
    assert!(
        page.text.contains("A valid API key is needed") && page.text.contains("Send a valid key"),
        "{}",
        page.text
    );
    let all = world.get("/problems", "").await;
    for kind in unslide_api::problem::Kind::ALL {
        let uri = kind.uri();
        assert!(all.text.contains(&format!("href=\"{uri}\"")), "{uri}");
        assert!(world.get(&uri, "").await.text.contains(kind.title()), "{uri}");
    }
    world.get("/problems/nothing", "").await.expect_problem(404, "not-found");
    world.stop().await;
}

/// Sends bytes on a connection of their own and gives the answer's status and body.
async fn raw(world: &World, request: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = world.url.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.get(9..12).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn a_request_names_its_host_once() {
    let world = World::start().await;
    for (version, hosts, valid) in [
        ("1.1", "", false),
        ("1.1", "host: a\r\nhost: b\r\n", false),
        ("1.1", "host: a@b\r\n", false),
        ("1.1", "host: a b\r\n", false),
        ("1.1", "host: [::1]:8080\r\n", true),
        ("1.0", "", true),
    ] {
        let request = format!("GET /problems HTTP/{version}\r\n{hosts}connection: close\r\n\r\n");
        let (status, body) = raw(&world, &request).await;
        assert_eq!(status, if valid { 200 } else { 400 }, "{request}");
        assert_eq!(body.contains("/problems/invalid-request\","), !valid, "{body}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_transfer_coding_that_is_not_undone_is_refused() {
    let world = World::start().await;
    for (codings, status) in [
        ("transfer-encoding: chunked\r\n", 401),
        ("transfer-encoding: gzip, chunked\r\n", 400),
        ("transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", 400),
    ] {
        let request = format!(
            "POST /v1/reports HTTP/1.1\r\nhost: a\r\n{codings}connection: close\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
        );
        assert_eq!(raw(&world, &request).await.0, status, "{codings}");
    }
    world.stop().await;
}

/// An operator has to see who tries which key, and the log must not give a key away.
#[tokio::test]
async fn a_refused_key_is_logged_with_its_prefix_and_the_peers_address() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
    // Where there is only one, what other tests log first, on threads without any, is logged nowhere.
    let _another = tracing::Dispatch::new(tracing_subscriber::registry());
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = World::start().await;
    let secret = "a".repeat(40);
    for key in [format!("unslide_abcdefgh_{secret}"), format!("unslide_{secret}"), String::new()] {
        world.get("/v1/symbols", &key).await.expect_problem(401, "unauthorized");
    }
    world.stop().await;
    let text = lines.text();
    assert!(!text.contains(&secret), "{text}");
    let refused: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let spans: Vec<_> = refused
        .iter()
        .filter(|line| line["fields"]["http.status"] == 401)
        .map(|line| &line["span"])
        .collect();
    assert_eq!(spans.len(), 3, "{text}");
    assert_eq!((&spans[0]["key.prefix"], spans[1].get("key.prefix")), (&"abcdefgh".into(), None));
    for span in spans {
        assert_eq!(span["peer.address"], "127.0.0.1", "{span}");
    }
}

/// What was logged.
#[derive(Clone, Default)]
struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_named_and_the_service_stays_ready() {
    let mut world = World::start().await;
    let ready = until_ready(&world).await;
    assert_eq!(
        ready.probes.keys().collect::<Vec<_>>(),
        ["kafka", "objects", "postgres", "serving", "topics"]
    );
    world.stop_storage().await;
    let mut away = world.host.health.check_dependencies().await;
    for _ in 0..3_000 {
        if !away.probes["objects"].ok && away.probes["postgres"].ok {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        away = world.host.health.check_dependencies().await;
    }
    assert!(away.ready && !away.probes["objects"].ok && away.probes["postgres"].ok, "{away:?}");
    // Balancers go on sending requests, and what needs no object storage is answered.
    assert!(world.host.health.check_readiness().await.ready);
    assert_eq!(world.get("/readyz", "").await.text, "ok\n");
    // The answer has Retry-After, and does not say what is broken.
    let key = world.create_master_key("acme").await;
    let upload = world.post("/v1/symbols", &key, b"\xcf\xfa\xed\xfe".to_vec()).await;
    assert_eq!(upload.headers["retry-after"], "5");
    let body = upload.parse_json();
    upload.expect_problem(503, "unavailable");
    assert_eq!(body.get("detail"), None);
    world.stop().await;
}

async fn until_ready(world: &World) -> Readiness {
    for _ in 0..1_800 {
        let answer = world.host.health.ask_now().await;
        if answer.is_complete() {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{:?}", world.host.health.ask_now().await);
}

/// Reports that go to a wrong topic are lost later: their senders have to know first.
/// Proves: one-outcome
#[tokio::test]
async fn nothing_is_sent_to_wrong_topics_and_it_is_said_what_is_wrong_with_them() {
    let mut kafka = None;
    let world = World::configured(|config| {
        config.kafka.topic_prefix = format!("{}.", servers::unique("later"));
        kafka = Some(config.kafka.clone());
    })
    .await;
    let kafka = kafka.unwrap();
    let missing = format!("{}: does not exist", kafka.topic_names().input);
    let reason = async || {
        let answer = world.host.health.ask_now().await;
        answer.probes["topics"].reason.clone().unwrap()
    };
    while !reason().await.contains(&missing) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // What needs no topic is answered.
    let key = world.create_master_key("acme").await;
    world.post("/v1/symbols", &key, b"\xcf\xfa\xed\xfe".to_vec()).await.expect_status(202);
    world.post("/v1/reports", &key, b"{}".to_vec()).await.expect_problem(503, "unavailable");
    admin::create_topics(&kafka).await.unwrap();
    until_ready(&world).await;
    world.stop().await;
    admin::delete_topics(&kafka).await.unwrap();
}

/// A newer program may need more topics: until they are made, apps go on sending.
#[tokio::test]
async fn a_missing_topic_that_the_api_does_not_write_refuses_no_report() {
    let prefix = format!("{}.", servers::unique("older"));
    let mut kafka = None;
    let other = World::configured(|config| kafka = Some(config.kafka.clone())).await;
    other.stop().await;
    let mut kafka = kafka.unwrap();
    kafka.topic_prefix.clone_from(&prefix);
    let missing = kafka.topic_names().used_symbols;
    admin::create_topics(&kafka).await.unwrap();
    let client: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", servers::kafka()).create().unwrap();
    client.delete_topics(&[&missing], &AdminOptions::new()).await.unwrap();
    let world = World::configured(|config| config.kafka.topic_prefix.clone_from(&prefix)).await;
    let is_told = async || {
        let reason = world.host.health.ask_now().await.probes["topics"].reason.clone();
        reason.is_some_and(|text| text.contains(&format!("{missing}: does not exist")))
    };
    while !is_told().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let key = world.create_master_key("acme").await;
    let answer = world.post("/v1/reports", &key, b"{}".to_vec()).await;
    assert_ne!(answer.status, 503, "{}", answer.text);
    admin::create_topics(&kafka).await.unwrap();
    until_ready(&world).await;
    world.stop().await;
    admin::delete_topics(&kafka).await.unwrap();
}

#[tokio::test]
async fn requests_are_counted_by_route_template() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    world.get("/v1/symbols/0f1e2d3c4b5a69788796a5b4c3d2e1f0", &key).await.expect_problem(404, "not-found");
    world.get("/v1/symbols", &key).await.expect_status(200);
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
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let (more, body) = slow_body();
    let asking = async {
        world.wait_for_metric(r#"unslide_api_in_flight{kind="requests"}"#, 1.0).await;
        let refused = world.get("/v1/symbols", &umbrella).await;
        assert_eq!(refused.headers["retry-after"], "1");
        refused.expect_problem(503, "overloaded");
        // A balancer that were sent away would take the process for one that is stopping.
        assert_eq!(world.get("/readyz", "").await.text, "ok\n");
        more.close_channel();
    };
    let (held, ()) = tokio::join!(world.post("/v1/symbols/check", &acme, body), asking);
    held.expect_problem(400, "invalid-body");
    world.get("/v1/symbols", &umbrella).await.expect_status(200);
    world.stop().await;
}

#[tokio::test]
async fn too_many_uploads_at_once_are_sent_away() {
    let world = World::with(|limits| limits.uploads = 1).await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let (more, body) = slow_body();
    more.unbounded_send(Ok(b"\xcf\xfa\xed\xfe first".to_vec())).unwrap();
    let asking = async {
        world.wait_for_metric(r#"unslide_api_in_flight{kind="uploads"}"#, 1.0).await;
        let refused = world.post("/v1/symbols", &umbrella, b"\xcf\xfa\xed\xfe second".to_vec()).await;
        assert_eq!(refused.headers["retry-after"], "1");
        refused.expect_problem(503, "overloaded");
        more.close_channel();
    };
    let (first, ()) = tokio::join!(world.post("/v1/symbols", &acme, body), asking);
    first.expect_status(202);
    world.post("/v1/symbols", &umbrella, b"\xcf\xfa\xed\xfe second".to_vec()).await.expect_status(202);
    world.wait_for_metric(r#"unslide_api_in_flight{kind="uploads"}"#, 0.0).await;
    world.stop().await;
}
