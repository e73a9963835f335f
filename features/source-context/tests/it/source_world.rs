//! An api with source files, and a report whose frames name one.

use reqwest::Method;
use serde_json::json;
use std::io::{Cursor, Write};
use std::ops::Deref;
use unslide_harness::database::arrival;
use unslide_store::partitions;
use unslide_store::reports::{self, Arrival, Effects};
use unslide_world::{Answer, World, tenant_id};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub const APP: &str = "com.acme.shop";
pub const ID: &str = "4c4c442c-5555-3144-a13c-cb08e4ddcb6b";
pub const PATH: &str = "/ci/shop/Sources/Cart.swift";
pub const BUNDLES: &str = "/v1/source-bundles";

pub struct SourceWorld(World);

impl Deref for SourceWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl SourceWorld {
    pub async fn start() -> SourceWorld {
        let features = [unslide_console::feature(), unslide_source_context::feature()];
        SourceWorld(World::start(unslide_feature::for_api(&features), |_| {}).await)
    }

    pub async fn stop(self) {
        self.0.stop().await;
    }

    pub async fn switch(&self, key: &str, enabled: bool) -> Answer {
        let request = self.request(Method::PUT, "/v1/sources", key);
        let body = json!({"enabled": enabled}).to_string();
        self.send(request.header("content-type", "application/json").body(body)).await
    }

    /// Stores a report of a tenant. Returns the path of its operations.
    pub async fn store_report(&self, tenant: &str) -> String {
        let bytes = enriched_report();
        let report = unslide_report::Report::read_stored(bytes.as_bytes()).unwrap();
        let received_at = self.host.clock.now();
        let new = Arrival {
            report_id: report.id,
            received_at,
            body: unslide_proto::body::compress_report(bytes.as_bytes()),
            size: bytes.len() as u64,
            ..arrival(1)
        };
        partitions::ensure_partitions(&self.store, received_at.date(), received_at.date()).await.unwrap();
        let mut tx = self.store.tenant(&tenant_id(tenant)).await.unwrap();
        reports::store_arrivals(&mut tx, &[new], Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
        format!("/v1/reports/{}", report.id)
    }
}

/// A report with one frame of the app in line 3 of [`PATH`], and one of the system.
fn enriched_report() -> String {
    let frame = |id: &str, line: u64| {
        json!({"instruction_addr": 4_096, "symbolication": {"status": "symbolicated", "debug_id": id,
            "calls": [{"function": "Cart.total()", "file": PATH, "line": line}]}})
    };
    let system = "07070707-0707-0707-0707-070707070707";
    let report = json!({
        "report": {"id": "5A9E21D4-0C7B-4E0F-9B1E-6F2C8D4A7B10"},
        "system": {"CFBundleIdentifier": APP},
        "crash": {"error": {"type": "signal"}, "threads": [
            {"index": 0, "crashed": true, "backtrace": {"contents": [frame(ID, 3), frame(system, 3)]}}]},
    });
    let ours = json!({"version": 1, "engine": "unslide/0.1.0", "status": "complete",
        "images": [{"debug_id": ID, "status": "found"}, {"debug_id": system, "status": "found", "system": true}]});
    // Our member is the last one.
    let report = report.to_string();
    format!("{},\"symbolication\":{ours}}}", report.strip_suffix('}').unwrap())
}

/// The bundle of one source file, as Sentry's clients write it.
pub fn bundle(text: &str) -> Vec<u8> {
    let name = format!("files{PATH}");
    let manifest = json!({"debug_id": ID, "files": {&name: {"type": "source", "path": PATH}}}).to_string();
    let mut bytes = Cursor::new(b"SYSB\x02\0\0\0".to_vec());
    bytes.set_position(8);
    let mut writer = ZipWriter::new(bytes);
    for (name, content) in [(name.as_str(), text), ("manifest.json", &manifest)] {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}
