//! An api with reports of two versions of an app and their symbols.

use crate::changes::shop::ShopBuild;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::ops::Deref;
use unslide_artifacts::{AliasMeta, Put, keys};
use unslide_harness::database::arrival;
use unslide_model::{ContentHash, DebugId, Quality, ReportGrouping, Scope};
use unslide_store::GroupId;
use unslide_store::groups::id_of;
use unslide_store::partitions;
use unslide_store::reports::{self, Arrival, Effects, ImageUse};
use unslide_world::{World, tenant_id};

pub const APP: &str = "com.acme.shop";

pub struct ChangesWorld {
    world: World,
    /// A key of the tenant `acme` that reads reports.
    pub key: String,
    /// The build of 2.4.0, and that of 2.4.1.
    pub builds: [ShopBuild; 2],
}

impl Deref for ChangesWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl ChangesWorld {
    pub async fn start() -> ChangesWorld {
        let features = [unslide_console::feature(), unslide_changes::feature()];
        let world = Box::pin(World::start(unslide_feature::for_api(&features), |_| {})).await;
        let key = world.create_key("acme", &[Scope::ReportsRead]).await;
        let builds = [false, true].map(ShopBuild::compile);
        ChangesWorld { world, key, builds }
    }

    pub async fn stop(self) {
        self.world.stop().await;
    }

    /// Puts the symbols of both builds into object storage, as a builder does.
    pub async fn put_symbols(&self) {
        for build in &self.builds {
            let meta = AliasMeta {
                generation: 1,
                quality: Quality::DwarfSymtab,
                sha256: hash_bytes(&build.symcache),
                object: ContentHash([1; 32]),
            };
            let put = Put { metadata: meta.to_metadata(), ..Put::default() };
            let key = keys::for_symbols(tenant_id("acme").scope(build.debug_id)).alias(1);
            self.bucket().await.put(&key, build.symcache.clone().into(), &put).await.unwrap();
        }
    }

    /// Stores a report of a bug in a version, with the frames of a crash in the discount. Returns its group.
    pub async fn store_report(&self, bug: u8, version: &str, build: &ShopBuild) -> GroupId {
        let inlined = build.find_address("discounted").0;
        let caller = build.find_address("cart_open").0 + 4;
        let id = format!(
            "5A9E21D4-0C7B-4E0F-{bug:02X}1E-{:0>12X}",
            u64::from_str_radix(&version.replace('.', ""), 16).unwrap()
        );
        let bytes = build_report(&id, build.debug_id, [inlined, caller]);
        let report = unslide_report::Report::read_stored(bytes.as_bytes()).unwrap();
        let received_at = self.host.clock.now();
        let fingerprint = [bug; 16];
        let mut new = Arrival {
            report_id: report.id,
            received_at,
            body: unslide_proto::body::compress_report(bytes.as_bytes()),
            size: bytes.len() as u64,
            images: vec![ImageUse {
                debug_id: build.debug_id,
                name: "Shop".to_owned(),
                arch: "arm64".to_owned(),
                system: false,
                found: true,
                stripped: false,
                failed: false,
                seen_generation: 1,
            }],
            ..arrival(bug)
        };
        new.content_hash = hash_bytes(bytes.as_bytes());
        new.facts.grouping = Some(ReportGrouping {
            fingerprint,
            kind: "crash".to_owned(),
            provisional: false,
            title: format!("bug {bug}"),
            culprit: "discounted (shop.c)".to_owned(),
        });
        APP.clone_into(&mut new.facts.app);
        version.clone_into(&mut new.facts.version);
        partitions::ensure_partitions(&self.store, received_at.date(), received_at.date()).await.unwrap();
        let mut tx = self.store.tenant(&tenant_id("acme")).await.unwrap();
        reports::store_arrivals(&mut tx, &[new], Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
        id_of(APP, fingerprint)
    }

    pub async fn changes(&self, group: GroupId) -> Value {
        self.get(&format!("/v1/groups/{group}/changes"), &self.key).await.expect_status(200)
    }
}

/// A report with frames at these offsets of the app, the innermost first.
fn build_report(id: &str, debug_id: DebugId, offsets: [u64; 2]) -> String {
    const BASE: u64 = 0x1_0000_0000;
    let frames = offsets.map(|offset| json!({"instruction_addr": BASE + offset}));
    let report = json!({
        "report": {"id": id},
        "system": {"CFBundleIdentifier": APP},
        "binary_images": [{"name": "/private/var/containers/Bundle/Application/1/Shop.app/Shop", "uuid": debug_id.to_string(),
            "image_addr": BASE, "image_size": 65_536, "cpu_type": 16_777_228, "cpu_subtype": 0}],
        "crash": {"error": {"type": "mach", "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": 1}},
            "threads": [{"index": 0, "crashed": true, "backtrace": {"contents": frames}}]},
    });
    let ours = json!({"version": 1, "engine": "unslide/0.1.0", "status": "complete",
        "images": [{"debug_id": debug_id.to_string(), "status": "found"}]});
    // Our member is the last one.
    let report = report.to_string();
    format!("{},\"symbolication\":{ours}}}", report.strip_suffix('}').unwrap())
}

fn hash_bytes(bytes: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(bytes).into())
}
