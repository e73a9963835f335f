//! An api with owners, and reports whose frames name source files.

use reqwest::Method;
use serde_json::{Value, json};
use std::ops::Deref;
use unslide_harness::database::arrival;
use unslide_model::{ReportGrouping, Scope};
use unslide_store::GroupId;
use unslide_store::groups::id_of;
use unslide_store::partitions;
use unslide_store::reports::{self, Arrival, Effects};
use unslide_world::{Answer, World, tenant_id, wait_until};

pub const APP: &str = "com.acme.shop";
const IMAGE: &str = "4c4c442c-5555-3144-a13c-cb08e4ddcb6b";
/// Where the app was built.
pub const BUILD: &str = "/Users/ci/build/shop/";

/// A call: function, source file below [`BUILD`], and whether it is inlined into the next one.
pub type Call = (&'static str, &'static str, bool);

pub struct OwnerWorld {
    world: World,
    /// A key of the tenant `acme` that reads reports and uploads.
    pub key: String,
}

impl Deref for OwnerWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl OwnerWorld {
    pub async fn start() -> OwnerWorld {
        OwnerWorld::start_with(unslide_alerts::Config::default()).await
    }

    /// Starts it with settings for alerts.
    pub async fn start_with(alerts: unslide_alerts::Config) -> OwnerWorld {
        let features =
            [unslide_console::feature(), unslide_owners::feature(), unslide_alerts::feature(alerts)];
        let world = World::start(unslide_feature::for_api(&features), |_| {}).await;
        let scopes = [Scope::ReportsRead, Scope::SymbolsWrite, Scope::TenantAdmin];
        let key = world.create_key("acme", &scopes).await;
        OwnerWorld { world, key }
    }

    pub async fn stop(self) {
        self.world.stop().await;
    }

    /// Uploads a file of GitHub for all versions, or for one.
    pub async fn upload(&self, version: &str, file: &str) -> Value {
        let path = format!("/v1/owners?app={APP}&version={version}");
        self.post(&path, &self.key, file.to_owned()).await.expect_status(200)
    }

    /// Says that the build folder is the root of the repository.
    pub async fn set_root(&self) -> Answer {
        let body = json!({"app": APP, "paths": [{"from": BUILD, "to": ""}]}).to_string();
        let request = self.request(Method::PUT, "/v1/owners/paths", &self.key);
        self.send(request.header("content-type", "application/json").body(body)).await
    }

    /// Stores a revision of report `n` of a group, with the calls of its innermost frame. Returns the group.
    pub async fn store_report(&self, n: u8, revision: u32, calls: &[Call]) -> GroupId {
        self.store_version(n, revision, "1.0", calls).await
    }

    pub async fn store_version(&self, n: u8, revision: u32, version: &str, calls: &[Call]) -> GroupId {
        let bytes = enriched_report(n, calls);
        let report = unslide_report::Report::read_stored(bytes.as_bytes()).unwrap();
        let received_at = self.host.clock.now();
        let (tenant, fingerprint) = (tenant_id("acme"), [n; 16]);
        let grouping = ReportGrouping {
            fingerprint,
            kind: "crash".to_owned(),
            provisional: false,
            title: format!("bug {n}"),
            culprit: "total (Sum.swift)".to_owned(),
        };
        let mut new = Arrival {
            report_id: report.id,
            received_at,
            revision,
            body: unslide_proto::body::compress_report(bytes.as_bytes()),
            size: bytes.len() as u64,
            images: Vec::new(),
            ..arrival(n)
        };
        new.facts.grouping = Some(grouping);
        new.facts.version = version.to_owned();
        partitions::ensure_partitions(&self.store, received_at.date(), received_at.date()).await.unwrap();
        let mut tx = self.store.tenant(&tenant).await.unwrap();
        reports::store_arrivals(&mut tx, &[new], Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
        id_of(APP, fingerprint)
    }

    pub async fn owners(&self, group: GroupId) -> Value {
        self.get(&format!("/v1/groups/{group}/owners"), &self.key).await.expect_status(200)
    }

    /// Waits until the looks at a group have ended, and returns what they have found.
    pub async fn wait_for_look(&self, group: GroupId) -> Value {
        let mut found = Value::Null;
        let is_looked = async || {
            let swept = "SELECT count(*) FROM owner_apps WHERE swept_epoch < epoch";
            let is_swept = self.number(swept).await == 0;
            found = self.owners(group).await;
            is_swept && found["outcome"] != "waiting" && found["is_due"] == false
        };
        assert!(wait_until(is_looked).await, "the owner was not looked for: {found}");
        found
    }
}

/// A report with two frames of the app: one with these calls, and its caller `main`.
fn enriched_report(n: u8, calls: &[Call]) -> String {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(function, file, inlined)| match *file {
            "" => json!({"function": function, "inlined": inlined}),
            file if file.starts_with(['/', '<']) => {
                json!({"function": function, "file": file, "line": 3, "inlined": inlined})
            }
            file => {
                let file = format!("{BUILD}{file}");
                json!({"function": function, "file": file, "line": 3, "inlined": inlined})
            }
        })
        .collect();
    let frame = |address: u64, calls: Vec<Value>| {
        json!({"instruction_addr": address, "symbolication": {"status": "symbolicated", "source": "dwarf",
            "debug_id": IMAGE, "relative_address": address - 4_096, "calls": calls}})
    };
    let main = vec![json!({"function": "main", "file": "/Users/ci/build/shop/main.swift", "line": 1})];
    let report = json!({
        "report": {"id": format!("5A9E21D4-0C7B-4E0F-9B1E-6F2C8D4A7B{n:02X}")},
        "system": {"CFBundleIdentifier": APP},
        "binary_images": [{"name": "/private/var/containers/Bundle/Application/1/Shop.app/Shop", "uuid": IMAGE,
            "image_addr": 4_096, "image_size": 65_536, "cpu_type": 16_777_228, "cpu_subtype": 0}],
        "crash": {"error": {"type": "mach", "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": 1}},
            "threads": [{"index": 0, "crashed": true,
                "backtrace": {"contents": [frame(5_000, calls), frame(6_000, main)]}}]},
    });
    let ours = json!({"version": 1, "engine": "unslide/0.1.0", "status": "complete",
        "images": [{"debug_id": IMAGE, "status": "found"}]});
    // Our member is the last one.
    let report = report.to_string();
    format!("{},\"symbolication\":{ours}}}", report.strip_suffix('}').unwrap())
}
