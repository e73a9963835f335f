//! Bodies that do not come, from senders that anyone can be: others are answered at the same time.
//! Proves: fairness

use crate::cases::{cases, document, operations};
use crate::reports::A;
use crate::world::{World, report_json};
use reqwest::StatusCode;
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const REQUESTS: &str = r#"unslide_api_in_flight{kind="requests"}"#;
const REFUSED_KEYLESS: &str = r#"unslide_api_refused_total{limit="keyless_bodies"}"#;
const REFUSED_PUBLIC: &str = r#"unslide_api_refused_total{limit="arriving_public_bodies"}"#;
/// Routes with a body that the document does not have.
const OTHER_ROUTES: [(&str, &str); 20] = [
    ("POST", "/"),
    ("POST", "/dsym"),
    ("POST", "/api/0/organizations/acme/chunk-upload/"),
    ("POST", "/api/0/organizations/acme/artifactbundle/assemble/"),
    ("POST", "/api/0/projects/acme/app/files/difs/assemble/"),
    ("POST", "/api/v2/srcmap"),
    ("POST", "/api/projects/1/error_tracking/symbol_sets/bulk_start_upload"),
    ("PUT", "/api/projects/1/error_tracking/symbol_sets/url"),
    ("POST", "/mcp"),
    ("POST", "/mcp/acme"),
    ("POST", "/oauth/register"),
    ("POST", "/oauth/revoke"),
    ("POST", "/oauth/token"),
    ("POST", "/i/usp_unknown"),
    ("POST", "/i/usp_unknown/runs"),
    ("POST", "/symbols/usn_unknown/symbolicate/v5"),
    ("POST", "/console/sign-in"),
    ("POST", "/console/acknowledge/token"),
    ("POST", "/console/mail/token/confirm"),
    ("POST", "/no-such-route"),
];

/// An api behind a proxy, which names the clients.
async fn start(requests: usize, share: u8) -> World {
    World::configured(|config| {
        config.api.trusted_proxies = vec!["127.0.0.0/8".to_owned()];
        (config.api.limits.requests, config.api.limits.tenant_share) = (requests, share);
    })
    .await
}

/// Sends the head of a request and the first bytes of its body. The connection stays open until it is dropped.
async fn begin_request(world: &World, (method, path): (&str, &str), address: usize) -> TcpStream {
    let mut client = TcpStream::connect(world.url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 10.9.{}.{}\r\ncontent-length: 100000\r\n\
         sec-fetch-site: same-origin\r\ncontent-type: multipart/form-data; boundary=b\r\n\r\n\
         --b\r\ncontent-disposition: form-data; name=\"dsym\"; filename=\"a\"\r\n\r\n",
        address / 250,
        address % 250
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client
}

/// Returns true if a request is taken. One that has just come may hold its place until its head is read: far shorter than a body that
/// does not come is waited for.
async fn is_taken(world: &World, key: &str) -> bool {
    for _ in 0..40 {
        if world.get("/v1/symbols", key).await.status == StatusCode::OK {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    false
}

#[tokio::test]
async fn bodies_without_a_key_that_do_not_come_hold_no_request_of_any_operation() {
    let world = start(2, 50).await;
    let key = world.create_master_key("umbrella").await;
    let acme = world.create_master_key("acme").await;
    let cases = cases(&world, &acme).await;
    let operations = operations(&document());
    let paths = operations.iter().map(|(id, method, ..)| (method.as_str(), cases[id.as_str()].path.as_str()));
    for (number, route) in paths.chain(OTHER_ROUTES).enumerate() {
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(begin_request(&world, route, number).await);
            world.wait_for_metric(REQUESTS, 0.0).await;
        }
        assert!(is_taken(&world, &key).await, "{route:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn forms_that_do_not_come_are_bounded_by_address_and_hold_up_nobody() {
    let world = start(2, 50).await;
    let key = world.create_master_key("umbrella").await;
    let mut held = Vec::new();
    for address in 0..8 {
        for _ in 0..3 {
            held.push(begin_request(&world, ("POST", "/dsym"), address).await);
            world.wait_for_metric(REQUESTS, 0.0).await;
        }
        world.wait_for_metric(REFUSED_KEYLESS, (address + 1) as f64).await;
        assert!(is_taken(&world, &key).await, "{address}");
        world.get("/v1/tenants", &key).await.expect_status(200);
        world.get("/console/sign-in", "").await;
    }
    world.stop().await;
}

#[tokio::test]
async fn public_keys_leave_half_of_their_tenants_requests() {
    let world = start(16, 50).await;
    let acme = world.create_master_key("acme").await;
    let public = json!({"name": "app", "apps": ["com.example.shop"]});
    let public = world.post_json("/v1/public-keys", &acme, &public).await.expect_status(201);
    let public = public["key"].as_str().unwrap();
    let names = world.post_json("/v1/names-keys", &acme, &json!({"name": "team"})).await.expect_status(201);
    let names = names["text"].as_str().unwrap();
    for path in
        [format!("/i/{public}"), format!("/i/{public}/runs"), format!("/symbols/{names}/symbolicate/v5")]
    {
        let mut held = Vec::new();
        for address in 0..20 {
            held.push(begin_request(&world, ("POST", &path), address).await);
        }
        world.wait_for_metric(REQUESTS, 4.0).await;
        for _ in 0..20 {
            world.get("/v1/symbols", &acme).await.expect_status(200);
            world.post_json("/v1/reports", &acme, &report_json(A)).await.expect_status(202);
        }
        drop(held);
        world.wait_for_metric(REQUESTS, 0.0).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn eight_bodies_of_public_keys_arrive_from_an_address() {
    let world = start(200, 50).await;
    let acme = world.create_master_key("acme").await;
    let public = json!({"name": "app", "apps": ["com.example.shop"]});
    let public = world.post_json("/v1/public-keys", &acme, &public).await.expect_status(201);
    let path = format!("/i/{}", public["key"].as_str().unwrap());
    let mut held = Vec::new();
    for _ in 0..12 {
        held.push(begin_request(&world, ("POST", &path), 1).await);
    }
    world.wait_for_metric(REFUSED_PUBLIC, 4.0).await;
    world.wait_for_metric(REQUESTS, 8.0).await;
    world.stop().await;
}
