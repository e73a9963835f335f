//! Requests that are made to confuse the door or a cell behind it.

use crate::fake_cell::FakeCell;
use crate::streams::{start_behind, start_two};
use crate::test_door::TestDoor;
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends bytes to the door.
async fn send_bytes(door: &TestDoor, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(door.url.trim_start_matches("http://")).await.unwrap();
    // The door may close before it has read everything.
    let _ = stream.write_all(bytes.as_bytes()).await;
    stream
}

/// Reads the head of an answer. It is empty if the connection ends before one.
async fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(read) if read > 0 => head.extend_from_slice(&piece[..read]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

fn passed_requests(cells: [&FakeCell; 2]) -> usize {
    cells.iter().map(|cell| cell.list_requests().len()).sum()
}

#[tokio::test]
async fn a_head_with_two_meanings_goes_no_further() {
    let (door, eu, us) = start_two().await;
    let long = "a".repeat(200_000);
    let many = "a: b\r\n".repeat(200);
    for (name, head) in [
        ("two hosts", "GET /acme/ HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n".to_owned()),
        ("no host", "GET /acme/ HTTP/1.1\r\n\r\n".to_owned()),
        ("a user in the host", "GET /acme/ HTTP/1.1\r\nhost: u@a\r\n\r\n".to_owned()),
        (
            "two lengths",
            "POST /acme/ HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_owned(),
        ),
        ("a signed length", "POST /acme/ HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\na".to_owned()),
        (
            "gzip",
            "POST /acme/ HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n".to_owned(),
        ),
        (
            "not chunked last",
            "POST /acme/ HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, x\r\n\r\n0\r\n\r\n".to_owned(),
        ),
        ("a space in a name", "GET /acme/ HTTP/1.1\r\nhost : a\r\n\r\n".to_owned()),
        ("a folded line", "GET /acme/ HTTP/1.1\r\nhost: a\r\n b: c\r\n\r\n".to_owned()),
        ("a tunnel", "CONNECT acme:443 HTTP/1.1\r\nhost: acme:443\r\n\r\n".to_owned()),
        ("no path", "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n".to_owned()),
        ("another protocol", "GET /acme/ HTTP/9.9\r\nhost: a\r\n\r\n".to_owned()),
        ("a long head", format!("GET /acme/ HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n")),
        ("a long path", format!("GET /acme/{long} HTTP/1.1\r\nhost: a\r\n\r\n")),
        ("many headers", format!("GET /acme/ HTTP/1.1\r\nhost: a\r\n{many}\r\n")),
    ] {
        let answer = read_head(&mut send_bytes(&door, &head).await).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{name}: {answer}");
        assert_eq!(passed_requests([&eu, &us]), 0, "{name}");
    }
    // Chunks count, and what looks like a second request is one to the door, not to the cell.
    let (length, chunks) = ("content-length: 40\r\n", "transfer-encoding: chunked\r\n");
    for framing in [format!("{length}{chunks}"), format!("{chunks}{length}")] {
        let smuggled = format!(
            "POST /acme/ HTTP/1.1\r\nhost: a\r\n{framing}\r\n3\r\nabc\r\n0\r\n\r\n\
             GET /umbrella/ HTTP/1.1\r\nhost: a\r\nunslide-ask: tenant\r\nconnection: close\r\n\r\n"
        );
        let mut answers = String::new();
        let _ = send_bytes(&door, &smuggled).await.read_to_string(&mut answers).await;
    }
    for passed in eu.list_requests() {
        assert_eq!((passed.path.as_str(), passed.body.as_slice()), ("/acme/", &b"abc"[..]));
        assert!(!passed.headers.contains_key("content-length"));
    }
    assert!(us.list_requests().iter().all(|passed| !passed.headers.contains_key("unslide-ask")));
    door.stop().await;
}

#[tokio::test]
async fn headers_of_the_door_come_from_the_door_alone() {
    let (door, eu, _) = start_two().await;
    let request = door
        .request(Method::GET, "/acme/x", "")
        .header("unslide-ask", "tenant")
        .header("unslide-tenant", "umbrella")
        .header("x-forwarded-for", "192.0.2.1")
        .header("x-forwarded-proto", "https")
        .header("host", "crashes.example.com")
        .header("connection", "upgrade, x-forwarded-for, x-secret")
        .header("upgrade", "websocket")
        .header("x-secret", "a");
    assert_eq!(door.send(request).await.text, "acme 0");
    let passed = eu.take_request().headers;
    for gone in ["unslide-ask", "unslide-tenant", "upgrade", "x-secret"] {
        assert!(!passed.contains_key(gone), "{gone}");
    }
    assert_eq!(passed["x-forwarded-for"], "127.0.0.1");
    assert_eq!(passed["x-forwarded-proto"], "https");
    assert_eq!(passed["host"], "crashes.example.com");
    door.stop().await;
}

#[tokio::test]
async fn a_trusted_proxy_names_the_client_and_others_do_not() {
    let (door, eu, _) = start_behind(&["127.0.0.0/8"]).await;
    for (named, client) in [(Some("10.9.9.9, 192.0.2.7, 127.0.0.2"), Some("192.0.2.7")), (None, None)] {
        let request = door.request(Method::GET, "/acme/x", "");
        let request = match named {
            Some(named) => request.header("x-forwarded-for", named),
            None => request,
        };
        assert_eq!(door.send(request).await.status.as_u16(), 200);
        let passed = eu.take_request().headers;
        assert_eq!(passed.get("x-forwarded-for").map(|value| value.to_str().unwrap()), client);
    }
    door.stop().await;
}

#[tokio::test]
async fn a_flood_of_unknown_keys_of_one_network_is_cut_off_and_known_callers_go_on() {
    let (door, eu, us) = start_behind(&["127.0.0.0/8"]).await;
    let send = async |client: &str, path: &str, key: &str| {
        let request = door.request(Method::GET, path, key).header("x-forwarded-for", client);
        door.send(request).await.status.as_u16()
    };
    assert_eq!(send("192.0.2.1", "/acme/x", "unslide_a_known").await, 200);
    let mut refused = 0;
    for n in 0..600 {
        let status = send("192.0.2.1", "/v1/reports", &format!("unslide_a_{n}")).await;
        refused += usize::from(status == 503);
        assert!(status == 503 || status == 200, "{status}");
    }
    // Ten seconds' worth of them were asked about, and the one that is known.
    assert_eq!((refused, eu.count_questions(), us.count_questions()), (400, 201, 201));
    // What the door remembers needs no question, and another network has a rate of its own.
    assert_eq!(send("192.0.2.1", "/acme/x", "unslide_a_known").await, 200);
    assert_eq!(send("192.0.2.2", "/umbrella/x", "unslide_a_other").await, 200);
    door.stop().await;
}

#[tokio::test]
async fn what_anyone_gets_is_asked_once() {
    let (door, eu, us) = start_two().await;
    for _ in 0..3 {
        assert_eq!(door.get("/docs", "").await.text, "acme 0", "the first cell by name");
    }
    assert_eq!((eu.count_questions(), us.count_questions()), (1, 1));
    assert_eq!(us.list_requests().len(), 0);
    door.stop().await;
}
