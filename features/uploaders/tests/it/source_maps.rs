//! The requests of `sentry-cli sourcemaps upload`.

use crate::uploaders::world::{APP, Part, SCOPES, UploadWorld, sha1};
use serde_json::{Value, json};
use std::io::{Cursor, Write};
use std::time::Duration;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// The debug id that the build gave to the bundle, and the one of version 1.2, build 7, of the app.
pub const OWN_ID: &str = "1b5c7a6e-0000-4000-8000-000000000001";
pub const APP_ID: &str = "7e86e071-f8d1-5305-a545-46470a6ba4e7";
pub const SOURCE_MAP: &str =
    r#"{"version":3,"sources":["a.js"],"sourcesContent":["f()"],"names":["f"],"mappings":"AAAAA"}"#;

/// An archive as sentry-cli writes it: a head of eight bytes, and offsets that count from its begin.
fn bundle(name: &str, release: &Value, headers: &Value) -> Vec<u8> {
    let mut file = Cursor::new(b"SYSB\x02\0\0\0".to_vec());
    file.set_position(8);
    let mut archive = ZipWriter::new(file);
    let map = format!("files/_/_/{name}.map");
    let manifest = json!({
        "files": {
            map.as_str(): { "type": "source_map", "url": format!("~/{name}.map"), "headers": headers },
            format!("files/_/_/{name}"): { "type": "minified_source", "url": format!("~/{name}") },
        },
        "org": "acme", "project": APP, "release": release, "dist": "7",
    });
    let mut add = |path: &str, text: &str| {
        archive.start_file(path, SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    };
    add(&format!("files/_/_/{name}"), "f();");
    add(&map, SOURCE_MAP);
    add("manifest.json", &manifest.to_string());
    archive.finish().unwrap().into_inner()
}

impl UploadWorld {
    async fn assemble_bundle(&self, key: &str, bytes: &[u8]) -> Value {
        let hash = sha1(bytes);
        let body =
            json!({ "checksum": hash, "chunks": [hash], "projects": [APP], "version": "1.2", "dist": "7" });
        let path = "/api/0/organizations/acme/artifactbundle/assemble/";
        self.post_json(path, key, &body).await.expect_status(200)
    }

    /// Sends an archive and asks until it has its final state.
    async fn send_bundle(&self, key: &str, bytes: &[u8]) -> Value {
        let answer = self.assemble_bundle(key, bytes).await;
        assert_eq!(
            (&answer["state"], &answer["missingChunks"]),
            (&json!("not_found"), &json!([sha1(bytes)]))
        );
        assert_eq!(self.send_chunks(key, &[Part::chunk(bytes)]).await.status, 200);
        for _ in 0..3_000 {
            let answer = self.assemble_bundle(key, bytes).await;
            if answer["state"] != "assembling" {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the archive is not finished");
    }
}

#[tokio::test]
async fn an_archive_of_bundles_becomes_source_maps() {
    let mut world = UploadWorld::start().await;
    world.start_builder();
    let key = world.create_key("acme", &SCOPES).await;
    let options = world.options(&key).await.expect_status(200);
    assert!(options["accept"].as_array().unwrap().contains(&json!("artifact_bundles")));

    let whole = bundle("main.jsbundle", &json!("1.2"), &json!({ "debug-id": OWN_ID }));
    let answer = world.send_bundle(&key, &whole).await;
    assert_eq!(answer, json!({ "state": "ok", "missingChunks": [], "detail": null }));
    for id in [OWN_ID, APP_ID] {
        world.until_ready(&key, id).await;
    }
    let uploads = "SELECT count(*) FROM uploads WHERE app = 'com.example.shop' AND file_name = 'source maps of 1.2 (7)'";
    assert_eq!(world.number(uploads).await, 1);
    assert_eq!(world.number("SELECT count(*) FROM objects WHERE kind = 'source_map'").await, 2);

    // A map that no report can refer to: it has no debug id, and is of no app's bundle.
    let lost = bundle("app.min.js", &json!("1.2"), &json!({}));
    let answer = world.send_bundle(&key, &lost).await;
    assert_eq!(answer["state"], "error", "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("source map with a debug id"), "{answer}");
    world.stop().await;
}
