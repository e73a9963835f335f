//! Bodies in the api's memory: whatever brings them there, there is room for them first, and until the
//! last byte is written.

use crate::reports::{A, crash, store};
use crate::world::{World, slow};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const BODIES: &str = r#"unslide_api_body_bytes{kind="reports"}"#;
const ANSWERS: &str = r#"unslide_api_body_bytes{kind="answers"}"#;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Each unpacks to far more than it announces; while the tenant holds something else there is no room.
#[tokio::test]
async fn what_is_unpacked_takes_room_wherever_it_is_packed() {
    let world = World::with(|limits| {
        limits.bodies = 1;
        (limits.ingest_bytes, limits.ingest_unpacked_bytes, limits.report_bytes) =
            (2 << 20, 2 << 20, 2 << 20);
    })
    .await;
    let key = world.master("acme").await;
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1_900_000)).into_bytes();
    let packed = gzip(&large);
    // What the last member says of its size is no measure.
    let members = [packed.clone(), gzip(b"")].concat();
    let head = "--b\r\nContent-Disposition: form-data; name=\"x\"; filename=\"r.gz\"\r\n\r\n";
    let form = [head.as_bytes(), &packed, b"\r\n--b--\r\n"].concat();
    let parts = "multipart/form-data; boundary=b";
    let requests = [
        ("/v1/symbolicate", "application/json", packed.clone(), 200),
        ("/v1/reports", "application/json", packed, 202),
        ("/v1/reports", "application/json", members, 202),
        ("/v1/reports", parts, form, 202),
    ];
    let ask = async |(path, kind, body, _): &(&str, &str, Vec<u8>, u16)| {
        let request = world.request(reqwest::Method::POST, path, &key).header("content-type", *kind);
        world.send(request.body(body.clone())).await
    };
    let (more, body) = slow();
    let holding = world.request(reqwest::Method::POST, "/v1/reports", &key).header("content-length", 1 << 20);
    let asking = async {
        world.until(BODIES, f64::from(1 << 20)).await;
        for request in &requests {
            let detail = ask(request).await.expect_problem(429, "tenant-busy");
            assert!(detail.starts_with("bodies:"), "{detail}");
        }
        drop(more);
    };
    // The client ends before the length that it announced.
    let (_, ()) = tokio::join!(holding.body(body).send(), asking);
    world.until(BODIES, 0.0).await;
    for request in &requests {
        assert_eq!(ask(request).await.status.as_u16(), request.3, "{} {}", request.0, request.1);
    }
    world.until(BODIES, 0.0).await;
    world.stop().await;
}

/// A client that does not read its answer keeps the room that this takes, and gives it back with the
/// connection.
#[tokio::test]
async fn what_is_answered_takes_room_until_it_is_written() {
    let world = World::start().await;
    let key = world.master("acme").await;
    let mut large = crash(A, "1.0");
    large["user"] = "x".repeat(18_000_000).into();
    let size = store(&world, "acme", &large, 1, world.host.clock.now()).await.len();
    let address = world.url.strip_prefix("http://").unwrap();
    // The text of a report is short.
    let unread = async |path: &str, accept: &str| {
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\naccept: {accept}\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        client
    };
    let client = unread(&format!("/v1/reports/{A}"), "application/json").await;
    world.until(r#"unslide_api_request_seconds_count{method="GET",route="/v1/reports/{id}"}"#, 1.0).await;
    assert!(world.figure(ANSWERS) >= size as f64, "{}", world.figure(ANSWERS));
    assert_eq!(world.figure(r#"unslide_api_in_work{kind="requests"}"#), 0.0);
    drop(client);
    world.until(ANSWERS, 0.0).await;
    // Who reads its answer has it whole.
    let read = world.get(&format!("/v1/reports/{A}"), &key).await;
    assert_eq!(read.text.len(), size);
    let text = world.request(reqwest::Method::GET, &format!("/v1/reports/{A}"), &key);
    assert_eq!(world.send(text.header("accept", "text/plain")).await.status.as_u16(), 200);
    world.get(&format!("/v1/reports/{A}/explain"), &key).await.expect(200);
    world.until(ANSWERS, 0.0).await;
    world.stop().await;
}
