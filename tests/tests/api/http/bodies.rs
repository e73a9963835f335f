//! Bodies in the api's memory: whatever brings them there, there is room for them first, and until the
//! last byte is written.
//! Proves: bounded-input

use crate::reports::{A, crash, store};
use crate::world::{World, slow_body};
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
    let key = world.create_master_key("acme").await;
    let large = format!("{{\"crash\":{{\"threads\":[]}},\"a\":\"{}\"}}", "x".repeat(1_900_000)).into_bytes();
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
    let (more, body) = slow_body();
    more.unbounded_send(Ok(vec![b' '; 1 << 20])).unwrap();
    let asking = async {
        world.wait_for_metric(BODIES, f64::from(1 << 20)).await;
        for request in &requests {
            let detail = ask(request).await.expect_problem(429, "tenant-busy");
            assert!(detail.starts_with("Too many concurrent request bodies"), "{detail}");
        }
        drop(more);
    };
    let (empty, ()) = tokio::join!(world.post("/v1/reports", &key, body), asking);
    empty.expect_problem(400, "invalid-report");
    world.wait_for_metric(BODIES, 0.0).await;
    for request in &requests {
        assert_eq!(ask(request).await.status.as_u16(), request.3, "{} {}", request.0, request.1);
    }
    world.wait_for_metric(BODIES, 0.0).await;
    world.stop().await;
}

/// A client that does not read its answer keeps the room that this takes, and gives it back with the
/// connection.
#[tokio::test]
async fn what_is_answered_takes_room_until_it_is_written() {
    let world = World::with(|limits| limits.answer_stall_seconds = 600).await;
    let key = world.create_master_key("acme").await;
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
    world
        .wait_for_metric(r#"unslide_api_request_seconds_count{method="GET",route="/v1/reports/{id}"}"#, 1.0)
        .await;
    assert!(world.read_metric(ANSWERS) >= size as f64, "{}", world.read_metric(ANSWERS));
    assert_eq!(world.read_metric(r#"unslide_api_in_flight{kind="requests"}"#), 0.0);
    drop(client);
    world.wait_for_metric(ANSWERS, 0.0).await;
    // Who reads its answer has it whole.
    let read = world.get(&format!("/v1/reports/{A}"), &key).await;
    assert_eq!(read.text.len(), size);
    let text = world.request(reqwest::Method::GET, &format!("/v1/reports/{A}"), &key);
    assert_eq!(world.send(text.header("accept", "text/plain")).await.status.as_u16(), 200);
    world.get(&format!("/v1/reports/{A}/explain"), &key).await.expect_status(200);
    world.wait_for_metric(ANSWERS, 0.0).await;
    world.stop().await;
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut plain).unwrap();
    plain
}

/// Room for the encoder is taken and given back like that of the answer.
#[tokio::test]
async fn answers_are_compressed_for_clients_that_ask_and_take_room_until_they_are_written() {
    let world = World::with(|limits| limits.answer_stall_seconds = 600).await;
    let key = world.create_master_key("acme").await;
    let mut large = crash(A, "1.0");
    // Its gzip, too, is more than a connection takes before it is read.
    let mut state = 1u64;
    let noise: String = (0..18_000_000)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'0' + (state >> 58) as u8)
        })
        .map(|character| if character == '\\' { 'x' } else { character })
        .collect();
    large["user"] = noise.into();
    let stored = store(&world, "acme", &large, 1, world.host.clock.now()).await;
    let path = format!("/v1/reports/{A}");
    let ask =
        |coding: &str| world.request(reqwest::Method::GET, &path, &key).header("accept-encoding", coding);
    for (asked, coding, read) in [
        ("gzip", Some("gzip"), gunzip as fn(&[u8]) -> Vec<u8>),
        ("gzip, zstd;q=0.5", Some("gzip"), gunzip),
        ("zstd", Some("zstd"), |bytes| zstd::decode_all(bytes).unwrap()),
        ("br", None, <[u8]>::to_vec),
        ("identity", None, <[u8]>::to_vec),
    ] {
        let answer = ask(asked).send().await.unwrap();
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header("content-encoding").as_deref(), coding, "{asked}");
        assert_eq!(header("etag").unwrap().starts_with("W/"), coding.is_some(), "{asked}");
        assert!(answer.headers().get_all("vary").iter().any(|value| value == "accept-encoding"), "{asked}");
        let tag = header("etag").unwrap();
        assert!(read(&answer.bytes().await.unwrap()) == stored, "{asked}");
        let again = ask(asked).header("if-none-match", tag).send().await.unwrap();
        assert_eq!(again.status().as_u16(), 304, "{asked}");
    }
    // What is short, or may be anything, stays as it is.
    let short = world
        .send(world.request(reqwest::Method::GET, "/v1/keys", &key).header("accept-encoding", "gzip"))
        .await;
    assert_eq!(short.headers.get("content-encoding"), None);
    world.wait_for_metric(ANSWERS, 0.0).await;
    // An answer that nobody reads keeps its room, and its encoder's.
    let mut client = TcpStream::connect(world.url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\naccept-encoding: zstd\r\n\r\n"
    );
    let before =
        world.read_metric(r#"unslide_api_request_seconds_count{method="GET",route="/v1/reports/{id}"}"#);
    client.write_all(head.as_bytes()).await.unwrap();
    world
        .wait_for_metric(
            r#"unslide_api_request_seconds_count{method="GET",route="/v1/reports/{id}"}"#,
            before + 1.0,
        )
        .await;
    assert!(
        world.read_metric(ANSWERS) >= (stored.len() + (2 << 20)) as f64,
        "{}",
        world.read_metric(ANSWERS)
    );
    drop(client);
    world.wait_for_metric(ANSWERS, 0.0).await;
    world.stop().await;
}

/// An export is a stream of unknown length. Events come at once, so they are not compressed.
#[tokio::test]
async fn exports_are_compressed_for_clients_that_ask_and_events_are_not() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    for format in ["csv", "ndjson"] {
        let path = format!("/v1/reports?format={format}");
        let plain = world.get(&path, &key).await;
        let ask = world.request(reqwest::Method::GET, &path, &key).header("accept-encoding", "gzip");
        let answer = ask.send().await.unwrap();
        assert_eq!(answer.headers()["content-encoding"], "gzip", "{format}");
        assert_eq!(answer.headers()["content-type"], plain.headers["content-type"], "{format}");
        assert_eq!(gunzip(&answer.bytes().await.unwrap()), plain.text.as_bytes(), "{format}");
    }
    let events = world.request(reqwest::Method::GET, "/v1/events?seconds=1", &key);
    let events = world.send(events.header("accept-encoding", "gzip")).await;
    assert_eq!((events.status.as_u16(), events.headers.get("content-encoding")), (200, None));
    world.wait_for_metric(ANSWERS, 0.0).await;
    world.stop().await;
}

/// Where there is no room for an encoder, the answer is worth more than its compression.
#[tokio::test]
async fn an_answer_without_room_for_an_encoder_goes_out_as_it_is() {
    let world = World::with(|limits| (limits.answer_bytes, limits.tenant_share) = (1 << 20, 100)).await;
    let key = world.create_master_key("acme").await;
    let mut report = crash(A, "1.0");
    report["user"] = "x".repeat(10_000).into();
    store(&world, "acme", &report, 1, world.host.clock.now()).await;
    let ask = world.request(reqwest::Method::GET, &format!("/v1/reports/{A}"), &key);
    let answer = world.send(ask.header("accept-encoding", "gzip")).await;
    assert_eq!((answer.status.as_u16(), answer.headers.get("content-encoding")), (200, None));
    world.stop().await;
}
