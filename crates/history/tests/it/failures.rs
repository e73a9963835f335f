//! Servers that refuse, that never answer, and that answer with something else.

use crate::world::{World, row, tenant};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpListener;
use unslide_history::{
    History, HistoryError, HistoryFilter, HistoryOrder, HistoryResult, HistorySettings, INSERT_ROWS_LIMIT,
};
use uuid::Uuid;

fn with_url(url: &str) -> History {
    History::new(&HistorySettings { url: Some(url.to_owned()), ..HistorySettings::default() }).unwrap()
}

async fn find_any(history: &History) -> HistoryResult<usize> {
    let found =
        history.find(&tenant("acme"), &HistoryFilter::default(), None, HistoryOrder::NewestFirst, 10).await;
    found.map(|rows| rows.len())
}

/// Answers each request with this text.
fn answer_with(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(&answer);
        }
    });
    url
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_away() {
    // Connections are accepted by the kernel; nobody reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let history = with_url(&format!("http://{}", listener.local_addr().unwrap()));
    let error = find_any(&history).await.unwrap_err();
    assert!(error.is_away() && error.to_string().contains("no answer in time"), "{error}");
    let rows = [row(1, 1, &json!({}))];
    let error = history.insert(&tenant("acme"), Uuid::from_u128(1), &rows).await.unwrap_err();
    assert!(error.is_away(), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_away() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let history = with_url(&format!("http://{}", listener.local_addr().unwrap()));
    drop(listener);
    let error = find_any(&history).await.unwrap_err();
    assert!(error.is_away() && !error.to_string().contains("http://"), "{error}");
}

#[tokio::test]
async fn another_server_and_a_wrong_answer_are_refusals() {
    for (answer, away) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", false),
        ("HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n[1,\"secret\"]", false),
        ("HTTP/1.1 200 OK\r\nX-ClickHouse-Exception-Code: 241\r\nContent-Length: 5\r\n\r\nCode:", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n[1,", true),
    ] {
        let error = find_any(&with_url(&answer_with(answer.into()))).await.unwrap_err();
        assert_eq!(error.is_away(), away, "{answer}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_too_large() {
    let line = b"[1,\"00000000-0000-0000-0000-000000000001\",0,1]\n".repeat(22_000);
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", line.len() * 70).into_bytes();
    for _ in 0..70 {
        answer.extend_from_slice(&line);
    }
    let error = find_any(&with_url(&answer_with(answer))).await.unwrap_err();
    assert!(matches!(error, HistoryError::TooLarge(_)), "{error}");
}

#[tokio::test]
async fn a_missing_table_and_too_many_rows_are_refused_and_named() {
    let world = World::start().await;
    let database = format!("{}_none", world.settings.database);
    let history = History::new(&HistorySettings { database, ..world.settings.clone() }).unwrap();
    let error = find_any(&history).await.unwrap_err();
    assert!(matches!(error, HistoryError::Refused { code: Some(60 | 81), .. }), "{error}");
    let rows = vec![row(1, 1, &json!({})); INSERT_ROWS_LIMIT + 1];
    let error = world.history.insert(&tenant("acme"), Uuid::from_u128(1), &rows).await.unwrap_err();
    assert!(matches!(error, HistoryError::TooLarge(_)), "{error}");
    world.stop().await;
}
