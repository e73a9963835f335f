//! Bodies pass piece by piece, in both directions.

use crate::fake_cell::FakeCell;
use crate::test_door::{TestDoor, make_directory};
use reqwest::Method;
use unslide_world::slow_body;

pub async fn start_two() -> (TestDoor, FakeCell, FakeCell) {
    start_behind(&[]).await
}

/// Two made-up cells, and a door behind proxies of these networks.
pub async fn start_behind(proxies: &[&str]) -> (TestDoor, FakeCell, FakeCell) {
    let (eu, us) = (FakeCell::start("acme").await, FakeCell::start("umbrella").await);
    let cells = [("eu", eu.url.as_str()), ("us", us.url.as_str())];
    let directory = make_directory(&cells, &[("acme", "eu"), ("umbrella", "us")]).await;
    let door = TestDoor::start_behind(directory, proxies).await;
    door.wait_for_cell("eu", true).await;
    door.wait_for_cell("us", true).await;
    (door, eu, us)
}

#[tokio::test]
async fn a_body_reaches_its_cell_while_its_client_still_sends() {
    let (door, _, us) = start_two().await;
    let (more, body) = slow_body();
    let request = door.request(Method::POST, "/umbrella/slow", "unslide_a_b").body(body);
    let sending = door.send(request);
    let piece_by_piece = async {
        more.unbounded_send(Ok(vec![b'x'; 10])).unwrap();
        us.wait_for_begin().await;
        for _ in 0..32 {
            more.unbounded_send(Ok(vec![b'x'; 1 << 20])).unwrap();
        }
        drop(more);
    };
    let (answer, ()) = tokio::join!(sending, piece_by_piece);
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "umbrella 33554442"));
    door.stop().await;
}

#[tokio::test]
async fn an_answer_reaches_its_client_while_the_cell_still_sends() {
    let (door, eu, _) = start_two().await;
    let mut response = door.request(Method::GET, "/acme/events", "unslide_a_b").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: one\n\n");
    eu.finish_events();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: two\n\n");
    assert_eq!(response.chunk().await.unwrap(), None);
    door.stop().await;
}

#[tokio::test]
async fn the_beginning_of_a_body_that_names_its_sender_is_passed_on_too() {
    let (door, eu, us) = start_two().await;
    for (length, is_chunked) in [(20, false), (200_000, false), (200_000, true)] {
        let mut body = b"umbrella ".to_vec();
        body.resize(length, b'x');
        let request = door.request(Method::POST, "/form", "");
        let request = match is_chunked {
            false => request.body(body.clone()),
            true => {
                let (more, stream) = slow_body();
                for piece in body.chunks(10_000) {
                    more.unbounded_send(Ok(piece.to_vec())).unwrap();
                }
                request.body(stream)
            }
        };
        assert_eq!(door.send(request).await.text, format!("umbrella {length}"));
        let passed = us.take_request();
        assert!(passed.body == body, "{length}");
        assert_eq!(passed.headers.contains_key("content-length"), !is_chunked);
    }
    // The next sender of the same form is another one.
    let other = door.send(door.request(Method::POST, "/form", "").body("acme too")).await;
    assert_eq!(other.text, "acme 8");
    assert_eq!(eu.take_request().body, b"acme too");
    door.stop().await;
}

#[tokio::test]
async fn a_path_is_passed_on_byte_for_byte_and_answers_lose_headers_of_the_hop() {
    let (door, eu, _) = start_two().await;
    let mut stream = tokio::net::TcpStream::connect(door.url.trim_start_matches("http://")).await.unwrap();
    let head = "PROPFIND /acme/a/../%2e%2e/b?c=%2F&d HTTP/1.0\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    let passed = eu.take_request();
    assert_eq!((passed.method.as_str(), passed.path.as_str()), ("PROPFIND", "/acme/a/../%2e%2e/b?c=%2F&d"));
    let answer = door.get("/acme/x", "").await;
    assert_eq!(answer.headers["x-kept"], "b");
    assert!(!answer.headers.contains_key("x-hop"));
    door.stop().await;
}
