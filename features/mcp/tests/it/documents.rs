//! Clients whose id is the address of a document about them.

use crate::mcp::assistant::{Assistant, REDIRECT, message_status, person_key, set_provider, start_world};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use unslide_mcp::Config;
use unslide_world::Browser;

/// Serves documents by the path of the request. Returns its address and the number of requests so far.
async fn serve_documents(describe: fn(&str, &str) -> String) -> (String, u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let base = format!("http://127.0.0.1:{port}");
    let (own, count) = (base.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4_096];
            let read = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(describe(&own, &path).as_bytes()).await;
        }
    });
    (base, port, count)
}

fn answer_with(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn document(id: &str) -> Value {
    json!({"client_id": id, "client_name": "Described editor", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"})
}

fn describe(base: &str, path: &str) -> String {
    let id = format!("{base}{path}");
    let mut body = document(&id);
    match path {
        "/other.json" => body["client_id"] = format!("{base}/client.json").into(),
        "/secret.json" => body["token_endpoint_auth_method"] = "client_secret_basic".into(),
        "/nameless.json" => body["client_name"] = Value::Null,
        "/evil.json" => body["redirect_uris"] = json!(["com.example.app:/callback"]),
        "/large.json" => body["logo_uri"] = "a".repeat(9_000).into(),
        "/moved.json" => return answer_with(&format!("302 Found\r\nlocation: {base}/client.json"), ""),
        "/gone.json" => return answer_with("404 Not Found", &body.to_string()),
        "/text.json" => return answer_with("200 OK", "client"),
        _ => {}
    }
    answer_with("200 OK", &body.to_string())
}

#[tokio::test]
async fn a_client_is_as_the_document_at_its_address_describes_it() {
    let (base, port, count) = serve_documents(describe).await;
    let mut config = Config::default();
    config.api.mcp.networks = vec!["127.0.0.0/8".to_owned()];
    config.api.mcp.ports = vec![port];
    let world = start_world(config).await;
    set_provider(&world, "acme").await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let mut assistant = Assistant::register(&world).await;
    assistant.id = format!("{base}/client.json");
    // A stranger has nothing read.
    assert_eq!(Browser::new(&world).get(&assistant.consent_path()).await.status, 303);
    assert_eq!(count.load(Ordering::Relaxed), 0);
    let page = browser.fetch_page(&assistant.consent_path()).await;
    assert!(page.contains("Described editor") && page.contains("Described by"), "{page}");
    let tokens = assistant.get_tokens(&browser, false).await;
    assert_eq!(message_status(&world, &tokens.access).await, 200);
    assert_eq!(count.load(Ordering::Relaxed), 1, "a document is read once in minutes");
    for (path, why) in [
        ("/other.json", "another client_id"),
        ("/secret.json", "token_endpoint_auth_method"),
        ("/nameless.json", "client_name"),
        ("/evil.json", "redirect_uris"),
        ("/large.json", "more than"),
        ("/moved.json", "status 302"),
        ("/gone.json", "status 404"),
        ("/text.json", "client_name"),
        ("/", "the address of a document"),
    ] {
        assistant.id = format!("{base}{path}");
        let refused = browser.get(&assistant.consent_path()).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text);
        assert!(refused.text.contains(why), "{path}: {}", refused.text);
    }
    world.stop().await;
}

#[tokio::test]
async fn documents_in_networks_of_the_service_are_not_read() {
    let (base, _, count) = serve_documents(describe).await;
    let world = start_world(Config::default()).await;
    set_provider(&world, "acme").await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let mut assistant = Assistant::register(&world).await;
    for id in [
        format!("{base}/client.json"),
        "https://127.0.0.1/client.json".to_owned(),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://localhost/client.json".to_owned(),
    ] {
        assistant.id = id;
        assert_eq!(browser.get(&assistant.consent_path()).await.status, 400, "{}", assistant.id);
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
    world.stop().await;
}
