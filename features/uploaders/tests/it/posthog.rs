//! The requests of posthog-cli.

use crate::uploaders::world::{SCOPES, UploadWorld, fixture};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{Cursor, Write};
use unslide_model::Scope;
use unslide_world::Answer;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const FOLDER: &str = "/api/projects/101/error_tracking";

/// A container as the client writes it, with a file `dwarf` in it.
fn container(kind: u8, dwarf: &[u8]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("dwarf", SimpleFileOptions::default()).unwrap();
    archive.write_all(dwarf).unwrap();
    let archive = zstd::encode_all(&archive.finish().unwrap().into_inner()[..], 3).unwrap();
    [b"posthog_error_tracking", &[2, 0, 0, 0, kind, 0, 0, 0, 1][..], &archive].concat()
}

impl UploadWorld {
    async fn ask(&self, end: &str, key: &str, body: &Value) -> Answer {
        self.post_json(&format!("{FOLDER}/{end}"), &format!("phx_{key}"), body).await
    }

    /// The URL for a symbol set.
    async fn set_url(&self, key: &str, id: &str) -> String {
        let body =
            json!({ "symbol_sets": [{ "chunk_id": id }], "upload_attempt_id": "a", "upload_run_id": "b" });
        let started = self.ask("symbol_sets/bulk_start_upload", key, &body).await.expect_status(200);
        let url = started["id_map"][id]["presigned_put_url"].as_str().unwrap();
        url.strip_prefix(&self.url).unwrap().to_owned()
    }

    async fn put_set(&self, url: &str, body: Vec<u8>) -> Answer {
        self.send(self.request(Method::PUT, url, "").body(body)).await
    }
}

#[tokio::test]
async fn a_symbol_set_becomes_symbols_and_is_not_wanted_again() {
    let mut world = UploadWorld::start().await;
    world.start_builder();
    let key = world.create_key("acme", &SCOPES).await;
    let (bytes, debug_id) = fixture("app");
    let id = debug_id.to_uppercase();
    assert_eq!(world.get(&format!("{FOLDER}/releases/hash/ab"), &format!("phx_{key}")).await.status, 404);
    let release = json!({ "hash_id": "ab", "version": "1.2", "project": "com.example.shop", "metadata": {} });
    let made = world.ask("releases", &key, &release).await.expect_status(200);
    assert_eq!((&made["hash_id"], &made["version"]), (&json!("ab"), &json!("1.2")));

    let sets = json!({ "symbol_sets": [{ "chunk_id": id, "content_hash": "00", "content_length": 9 }] });
    let check = "symbol_sets/bulk_check_upload";
    let wanted = world.ask(check, &key, &sets).await.expect_status(200);
    assert_eq!(wanted, json!({ "chunk_ids_to_upload": [id] }));
    let url = world.set_url(&key, &id).await;
    world.put_set(&url, container(5, &bytes)).await.expect_status(200);
    let finish = json!({ "content_hashes": { id.as_str(): "00" } });
    world.ask("symbol_sets/bulk_finish_upload", &key, &finish).await.expect_status(200);
    world.until_ready(&key, &debug_id).await;
    let wanted = world.ask(check, &key, &sets).await.expect_status(200);
    assert_eq!(wanted, json!({ "chunk_ids_to_upload": [] }));
    assert_eq!(world.number("SELECT count(*) FROM uploads WHERE status = 'done'").await, 1);
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn a_url_permits_one_tenant_until_its_key_ends() {
    let world = UploadWorld::start().await;
    let key = world.create_key("acme", &SCOPES).await;
    let (bytes, debug_id) = fixture("app");
    let url = world.set_url(&key, &debug_id).await;
    // Who reads the database has the hash of the token, which permits nothing.
    let (file, _) = url.rsplit_once('.').unwrap();
    let stored = world.text("SELECT encode(token_hash, 'hex') FROM uploader_urls").await;
    for wrong in [
        format!("{file}.{stored}"),
        format!("{url}a"),
        format!("{FOLDER}/symbol_sets/x"),
        url.replace("symbol_sets/ey", "symbol_sets/eY"),
    ] {
        assert_eq!(world.put_set(&wrong, container(5, &bytes)).await.status, 401, "{wrong}");
    }
    let broken = world.put_set(&url, b"PK".to_vec()).await;
    assert_eq!((broken.status.as_u16(), &broken.parse_json()["code"]), (400, &json!("invalid-upload")));
    let unused = world.put_set(&url, container(2, b"map")).await;
    assert_eq!((unused.status.as_u16(), &unused.parse_json()["code"]), (415, &json!("unsupported-format")));
    assert!(unused.text.contains("symbol set of kind 2: no report is answered"), "{}", unused.text);
    assert_eq!(world.number("SELECT count(*) FROM uploads").await, 0);

    world.execute("UPDATE uploader_urls SET expires_at = now() - interval '1 second'").await;
    assert_eq!(world.put_set(&url, container(5, &bytes)).await.status, 401);
    let url = world.set_url(&key, &debug_id).await;
    world.execute("UPDATE keys SET revoked_at = now()").await;
    assert_eq!(world.put_set(&url, container(5, &bytes)).await.status, 401);
    let reader = world.create_key("acme", &[Scope::SymbolsRead]).await;
    assert_eq!(
        world.ask("symbol_sets/bulk_start_upload", &reader, &json!({ "symbol_sets": [] })).await.status,
        403
    );
    assert_eq!(world.ask("releases", "no-such-key", &json!({})).await.status, 401);
    world.stop().await;
}
