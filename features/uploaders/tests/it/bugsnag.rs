//! The requests of bugsnag-cli and of bugsnag-dsym-upload.

use crate::uploaders::world::{Part, SCOPES, UploadWorld, fixture, form_request};
use reqwest::header::LOCATION;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use unslide_world::Answer;

async fn send(world: &UploadWorld, path: &str, parts: &[Part<'_>]) -> (u16, String) {
    let Answer { status, text, .. } = world.send(form_request(world, path, parts)).await;
    (status.as_u16(), text)
}

#[tokio::test]
async fn a_file_is_stored_whether_its_key_comes_before_or_after_it() {
    let mut world = UploadWorld::start().await;
    world.start_builder();
    let key = world.create_key("acme", &SCOPES).await;
    let accepted = (202, "OK".to_owned());
    for (name, path, is_key_first) in
        [("app", "/", false), ("app-next", "/dsym", true), ("app", "/dsym", true)]
    {
        let (bytes, debug_id) = fixture(name);
        let mut parts = vec![
            Part::file("dsym", name, &bytes),
            Part::text("projectRoot", "/src"),
            Part::text("apiKey", &key),
        ];
        if is_key_first {
            parts.reverse();
        }
        assert_eq!(send(&world, path, &parts).await, accepted, "{name}");
        world.until_ready(&key, &debug_id).await;
    }
    let names = world
        .text("SELECT string_agg(file_name, ' ' ORDER BY file_name) FROM uploads WHERE status = 'done'")
        .await;
    assert_eq!(names, "app app-next");
    world.stop().await;
}

#[tokio::test]
async fn a_file_without_a_good_key_leaves_nothing() {
    let world = UploadWorld::start().await;
    let (bytes, _) = fixture("app");
    let refused = (401, "invalid apiKey".to_owned());
    let file = || Part::file("dsym", "app", &bytes);
    let long = "k".repeat(1_000);
    for key in ["no-such-key", "", "unslide_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", long.as_str()]
    {
        assert_eq!(send(&world, "/", &[file(), Part::text("apiKey", key)]).await, refused);
        assert_eq!(send(&world, "/dsym", &[Part::text("apiKey", key), file()]).await, refused);
    }
    assert_eq!(send(&world, "/", &[file()]).await, refused);
    assert_eq!(world.number("SELECT count(*) FROM uploads").await, 0);
    let key = world.create_key("acme", &SCOPES).await;
    assert_eq!(send(&world, "/", &[Part::text("apiKey", &key)]).await.0, 400);
    let wrong = [Part::file("dsym", "app", b"text"), Part::text("apiKey", &key)];
    assert_eq!(send(&world, "/", &wrong).await.0, 415);
    // The page at the same path stays.
    let page = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let page = page.get(&world.url).send().await.unwrap();
    assert_eq!((page.status().as_u16(), page.headers()[LOCATION].to_str().unwrap()), (307, "/docs"));
    world.stop().await;
}

/// Sends the beginning of a form with a file and no key.
async fn begin_form(world: &UploadWorld) -> TcpStream {
    let mut client = TcpStream::connect(world.url.strip_prefix("http://").unwrap()).await.unwrap();
    let form = "POST /dsym HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\
                content-type: multipart/form-data; boundary=b\r\n\r\n\
                --b\r\ncontent-disposition: form-data; name=\"dsym\"; filename=\"a\"\r\n\r\n";
    client.write_all(form.as_bytes()).await.unwrap();
    client
}

/// Proves: fairness
#[tokio::test]
async fn forms_that_do_not_come_hold_no_request_and_an_address_has_two() {
    let world = UploadWorld::start().await;
    let mut held = [begin_form(&world).await, begin_form(&world).await];
    world.wait_for_metric(r#"unslide_api_in_flight{kind="keyless_bodies"}"#, 2.0).await;
    let mut refused = String::new();
    begin_form(&world).await.read_to_string(&mut refused).await.ok();
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert_eq!(world.read_metric(r#"unslide_api_refused_total{limit="keyless_bodies"}"#), 1.0);
    assert_eq!(world.read_metric(r#"unslide_api_in_flight{kind="requests"}"#), 0.0);
    // A file before its key must come at a pace.
    for client in &mut held {
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 408");
    }
    world.stop().await;
}
