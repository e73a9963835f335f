//! The requests of datadog-ci.

use crate::uploaders::source_maps::{APP_ID, OWN_ID, SOURCE_MAP};
use crate::uploaders::world::{APP, Part, SCOPES, UploadWorld, fixture, form_request};
use serde_json::json;
use std::io::{Cursor, Write};
use unslide_world::Answer;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const EVENT: &str = r#"{"type":"ios_symbols","uuids":"67E9247C-814E-392B-A027-DBDE6748FCBF"}"#;

fn archive(bytes: &[u8]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("app.dSYM/Contents/Resources/DWARF/app", SimpleFileOptions::default()).unwrap();
    archive.write_all(bytes).unwrap();
    archive.finish().unwrap().into_inner()
}

async fn send(world: &UploadWorld, key: &str, parts: &[Part<'_>]) -> Answer {
    let request = form_request(world, "/api/v2/srcmap", parts);
    world.send(request.header("DD-API-KEY", key).header("DD-EVP-ORIGIN", "datadog-ci_dsyms")).await
}

#[tokio::test]
async fn an_archive_before_its_event_becomes_symbols() {
    let mut world = UploadWorld::start().await;
    world.start_builder();
    let key = world.create_key("acme", &SCOPES).await;
    let (bytes, debug_id) = fixture("app");
    let archive = archive(&bytes);
    for _ in 0..2 {
        let parts = [
            Part::file("symbols_archive", "ios_symbols_archive", &archive),
            Part::file("event", "event", EVENT.as_bytes()),
        ];
        assert_eq!(send(&world, &key, &parts).await.expect_status(202), json!({}));
    }
    world.until_ready(&key, &debug_id).await;
    assert_eq!(world.number("SELECT count(*) FROM uploads WHERE status <> 'failed'").await, 1);
    world.stop().await;
}

#[tokio::test]
async fn only_a_bad_key_is_a_403_and_unused_kinds_are_accepted() {
    let world = UploadWorld::start().await;
    let key = world.create_key("acme", &SCOPES).await;
    let event = |text: &str| [Part::file("event", "event", text.as_bytes())];
    assert_eq!(send(&world, "no-such-key", &event(EVENT)).await.status, 403);
    assert_eq!(send(&world, &key, &event(EVENT)).await.status, 400);
    assert_eq!(send(&world, &key, &[]).await.status, 400);
    assert_eq!(send(&world, &key, &event("{")).await.status, 400);
    let parts = [
        Part::file("jvm_mapping_file", "jvm_mapping", b"a -> b"),
        Part::file("event", "event", br#"{"type":"jvm_mapping_file"}"#),
    ];
    // A status after which the client does not send it again, and words that it prints.
    let answer = send(&world, &key, &parts).await;
    assert_eq!(answer.status, 413);
    let words = answer.parse_json()["errors"][0].as_str().unwrap().to_owned();
    assert!(words.starts_with("jvm_mapping_file: no report is answered"), "{words}");
    let wrong = [Part::file("symbols_archive", "a", b"text"), Part::file("event", "event", EVENT.as_bytes())];
    let answer = send(&world, &key, &wrong).await;
    assert_eq!(answer.status, 413);
    assert!(answer.parse_json()["errors"][0].as_str().unwrap().contains("An upload is"), "{}", answer.text);
    world.stop().await;
}

#[tokio::test]
async fn a_source_map_of_react_native_is_found_by_its_version_and_its_debug_id() {
    let mut world = UploadWorld::start().await;
    world.start_builder();
    let key = world.create_key("acme", &SCOPES).await;
    let event = json!({"type": "react_native_sourcemap", "service": APP, "version": "1.2", "build_number": "7",
        "bundle_name": "main.jsbundle", "platform": "ios", "debug_id": OWN_ID, "cli_version": "5.25.0"});
    let event = event.to_string();
    let parts = [
        Part::file("event", "event", event.as_bytes()),
        Part::file("source_map", "source_map", SOURCE_MAP.as_bytes()),
        Part::file("repository", "repository", b"{}"),
    ];
    assert_eq!(send(&world, &key, &parts).await.expect_status(202), json!({}));
    for id in [OWN_ID, APP_ID] {
        world.until_ready(&key, id).await;
    }
    // One that no report could find is an error that the client prints.
    let lost =
        json!({"type": "react_native_sourcemap", "service": APP, "bundle_name": "main.jsbundle"}).to_string();
    let parts = [
        Part::file("event", "event", lost.as_bytes()),
        Part::file("source_map", "source_map", SOURCE_MAP.as_bytes()),
    ];
    let answer = send(&world, &key, &parts).await;
    assert_eq!(answer.status, 413);
    assert!(answer.text.contains("without a debug id"), "{}", answer.text);
    assert_eq!(send(&world, &key, &parts[..1]).await.status, 400);
    world.stop().await;
}
