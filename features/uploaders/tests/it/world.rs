//! An api with these routes and a builder, with servers of their own.

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Method;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinHandle;
use unslide_builder::{Config, Error, Settings};
use unslide_model::Scope;
use unslide_runtime::Host;
use unslide_sandbox::child::ChildProgram;
use unslide_store::Uuid;
use unslide_testkit::fixtures::dsym;
use unslide_world::{Answer, World};

pub const APP: &str = "com.example.shop";
pub const SCOPES: [Scope; 2] = [Scope::SymbolsWrite, Scope::SymbolsRead];
const BOUNDARY: &str = "------------------------CP7Q";

/// The child process of the builder: [`a_child_does_what_its_folder_says`], alone.
fn child() -> ChildProgram {
    let test = "uploaders::world::a_child_does_what_its_folder_says";
    ChildProgram::from_current_exe(&[test, "--exact", "--nocapture", "--test-threads=1"]).unwrap()
}

#[test]
fn a_child_does_what_its_folder_says() {
    if Path::new("request.json").exists() {
        unslide_builder::serve_child(&[], &[]).unwrap();
    }
}

/// An api, and a builder if it was started.
pub struct UploadWorld {
    world: World,
    builder: Option<(Host, JoinHandle<Result<(), Error>>)>,
}

impl Deref for UploadWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl UploadWorld {
    pub async fn start() -> UploadWorld {
        let feature = unslide_uploaders::feature(unslide_uploaders::Config::default());
        let world = World::start(unslide_feature::for_api(&[feature]), |_| {}).await;
        UploadWorld { world, builder: None }
    }

    /// Starts the builder, which works on what was uploaded.
    pub fn start_builder(&mut self) {
        let config = Config {
            builder: Settings {
                work_dir: self.world.folder().join("work"),
                lease_seconds: 60,
                ..Settings::default()
            },
            tenants: unslide_runtime::TenantDefaults::default(),
            postgres: self.world.config.postgres.clone(),
            objects: self.world.config.objects.clone(),
            kafka: self.world.config.kafka.clone(),
            ..Config::default()
        };
        let feature = unslide_uploaders::feature(unslide_uploaders::Config::default());
        let (host, features) = (Host::local().unwrap(), unslide_feature::for_builder(&[feature]));
        let running = tokio::spawn(unslide_builder::run(config, features, host.clone(), child()));
        self.builder = Some((host, running));
    }

    pub async fn stop(self) {
        if let Some((host, builder)) = self.builder {
            host.shutdown.begin();
            tokio::time::timeout(Duration::from_secs(300), builder).await.unwrap().unwrap().unwrap();
            host.health.clear();
        }
        self.world.stop().await;
    }

    pub async fn options(&self, key: &str) -> Answer {
        self.get("/api/0/organizations/acme/chunk-upload/", key).await
    }

    pub async fn assemble(&self, key: &str, files: &Value) -> Answer {
        self.post_json(&format!("/api/0/projects/acme/{APP}/files/difs/assemble/"), key, files).await
    }

    pub async fn send_chunks(&self, key: &str, chunks: &[Part<'_>]) -> Answer {
        let path = "/api/0/organizations/acme/chunk-upload/";
        self.send(form_request(&self.world, path, chunks).bearer_auth(key)).await
    }

    /// Asks for the state of files until none is `assembling`.
    pub async fn finished(&self, key: &str, files: &Value) -> Value {
        for _ in 0..3_000 {
            let answer = self.assemble(key, files).await.expect_status(200);
            if answer.as_object().unwrap().values().all(|entry| entry["state"] != "assembling") {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the files are not finished");
    }

    /// Checks that the symbols of a debug id become ready and its upload ends, which are two transactions.
    pub async fn until_ready(&self, key: &str, debug_id: &str) {
        let is_ready = async || {
            let asked = json!({ "debug_ids": [debug_id] });
            self.post_json("/v1/symbols/check", key, &asked).await.expect_status(200)["ready"] == true
        };
        for _ in 0..3_000 {
            if is_ready().await {
                return self.wait_until_idle().await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{debug_id} is not ready");
    }
}

/// A part of a form.
pub struct Part<'p> {
    pub field: &'p str,
    pub file_name: Option<String>,
    pub bytes: Vec<u8>,
}

impl Part<'_> {
    pub fn text(field: &'static str, text: &str) -> Part<'static> {
        Part { field, file_name: None, bytes: text.as_bytes().to_vec() }
    }

    pub fn file(field: &'static str, file_name: &str, bytes: &[u8]) -> Part<'static> {
        Part { field, file_name: Some(file_name.to_owned()), bytes: bytes.to_vec() }
    }

    /// A chunk as sentry-cli sends it.
    pub fn chunk(bytes: &[u8]) -> Part<'static> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        Part { field: "file_gzip", file_name: Some(sha1(bytes)), bytes: encoder.finish().unwrap() }
    }
}

/// A request with a form, byte for byte as curl and sentry-cli write it.
pub fn form_request(world: &World, path: &str, parts: &[Part<'_>]) -> reqwest::RequestBuilder {
    let mut body = Vec::new();
    for part in parts {
        let mut head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"", part.field);
        if let Some(name) = &part.file_name {
            write!(head, "; filename=\"{name}\"\r\nContent-Type: application/octet-stream").unwrap();
        }
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(&part.bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    let request = world.request(Method::POST, path, "");
    request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}")).body(body)
}

pub fn sha1(bytes: &[u8]) -> String {
    Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The declaration of a file of these chunks.
pub fn declaration(name: &str, chunks: &[&[u8]]) -> Value {
    let whole = sha1(&chunks.concat());
    let hashes: Vec<String> = chunks.iter().map(|chunk| sha1(chunk)).collect();
    json!({ whole: { "name": name, "debug_id": null, "chunks": hashes } })
}

/// The dSYM of a fixture, and its debug id.
pub fn fixture(name: &str) -> (Vec<u8>, String) {
    let bytes = std::fs::read(dsym(name)).unwrap();
    let command = bytes.windows(8).position(|head| head == [0x1b, 0, 0, 0, 24, 0, 0, 0]).unwrap();
    let id = Uuid::from_slice(&bytes[command + 8..command + 24]).unwrap();
    (bytes, id.to_string())
}
