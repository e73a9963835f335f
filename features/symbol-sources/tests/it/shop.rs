//! An api and a builder whose tenants' sources are on this machine.

use reqwest::Method;
use serde_json::{Value, json};
use std::ops::Deref;
use std::path::Path;
use unslide_builder::{Config as BuilderConfig, Error, Settings};
use unslide_harness::service::RunningService;
use unslide_model::{ContentHash, DebugId, ReportId, Secret};
use unslide_runtime::Host;
use unslide_sandbox::child::ChildProgram;
use unslide_store::reports::{self, Arrival, Effects, ImageUse, ReportDetails};
use unslide_symbol_sources::{ASKING_JOB_KIND, Config};
use unslide_symbolicate::object::list_objects;
use unslide_testkit::fixtures;
use unslide_world::{Answer, World, tenant_id, wait_until};

pub const SOURCES: &str = "/v1/symbol-sources";
/// Probes of a builder that has started.
const PROBES: usize = 3;
const BODY: &[u8] = br#"{"report":{"id":"x"},"crash":{}}"#;

pub struct Shop {
    world: World,
    builder: RunningService<Error>,
    /// The key of the tenant `acme`.
    pub key: String,
}

impl Deref for Shop {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// The child process of the builder: [`a_child_does_what_its_folder_says`], alone.
fn child() -> ChildProgram {
    let test = "symbol_sources::shop::a_child_does_what_its_folder_says";
    ChildProgram::from_current_exe(&[test, "--exact", "--nocapture", "--test-threads=1"]).unwrap()
}

#[test]
fn a_child_does_what_its_folder_says() {
    if Path::new("request.json").exists() {
        let tasks = unslide_feature::collect_child_tasks(&[unslide_symbol_sources::FEATURE]);
        unslide_builder::serve_child(&tasks, &[]).unwrap();
    }
}

/// The settings of an api and a builder that reach these ports of this machine.
pub fn settings(ports: &[u16]) -> Config {
    let mut config = Config::default();
    let settings = &mut config.builder.symbol_sources;
    settings.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    settings.networks = vec!["127.0.0.0/8".to_owned()];
    settings.ports = ports.to_vec();
    settings.look_millis = 50;
    settings.answer_millis = 2_000;
    config
}

impl Shop {
    /// Starts an api and a builder that reach these ports of this machine.
    pub async fn start(ports: &[u16]) -> Shop {
        let feature = unslide_symbol_sources::feature(&settings(ports));
        assert_eq!(feature.settings.as_ref().unwrap().problems, []);
        let features = [feature];
        let world = World::start(unslide_feature::for_api(&features), |_| {}).await;
        let config = BuilderConfig {
            builder: Settings {
                work_dir: world.folder().join("work"),
                // A machine that is busy for some seconds takes no job away.
                lease_seconds: 60,
                ..Settings::default()
            },
            tenants: unslide_runtime::TenantDefaults::default(),
            postgres: world.postgres.clone(),
            objects: world.objects.clone(),
            kafka: world.kafka.clone(),
            ..BuilderConfig::default()
        };
        let host = Host::local().unwrap();
        let run =
            unslide_builder::run(config, unslide_feature::for_builder(&features), host.clone(), child());
        let builder = RunningService::spawn(host, PROBES, run);
        let key = world.create_master_key("acme").await;
        Shop { world, builder, key }
    }

    /// Stops everything and takes it away.
    pub async fn stop(self) {
        self.builder.stop().await;
        self.world.stop().await;
    }

    pub async fn put(&self, key: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PUT, SOURCES, key).json(body)).await
    }

    /// Sets a symbol server as the source `server` of the tenant `acme`.
    pub async fn set_server(&self, url: &str, layout: &str) {
        let body = json!({"name": "server", "kind": "http", "layout": layout, "address": url, "authorization": "Bearer hidden-token"});
        self.put(&self.key, &body).await.expect_status(200);
    }

    /// Returns a source of the tenant `acme`.
    pub async fn read_source(&self, name: &str) -> Value {
        let list = self.get(SOURCES, &self.key).await.expect_status(200);
        let found = list["sources"].as_array().unwrap().iter().find(|source| source["name"] == name);
        found.unwrap_or_else(|| panic!("{list}")).clone()
    }

    /// Stores report `number` of a tenant, which waits for the symbols of an image of the app.
    pub async fn store_report(&self, tenant: &str, number: u8, debug_id: DebugId) {
        let now = self.host.clock.now();
        unslide_store::partitions::ensure_partitions(&self.store, now.date(), now.date()).await.unwrap();
        let image = ImageUse {
            debug_id,
            name: "Shop".into(),
            arch: "arm64".into(),
            system: false,
            found: false,
            stripped: false,
            failed: false,
            seen_generation: 0,
        };
        let arrival = Arrival {
            report_id: ReportId([number; 16]),
            content_hash: ContentHash([number; 32]),
            revision: 1,
            received_at: now,
            body: unslide_proto::body::compress_report(BODY),
            size: BODY.len() as u64,
            facts: ReportDetails { status: "partial".into(), ..ReportDetails::default() },
            images: vec![image],
            origin: None,
            traceparent: None,
        };
        let mut tx = self.store.tenant(&tenant_id(tenant)).await.unwrap();
        reports::store_arrivals(&mut tx, &[arrival], Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Waits for a condition, while the job looks as often as it may.
    pub async fn wait_for(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let holds = wait_until(async || {
            // A builder polls the queue every few seconds; this is the notification of a new job.
            self.execute("NOTIFY unslide_jobs").await;
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            holds().await
        });
        assert!(holds.await, "{what}: {}", self.get(SOURCES, &self.key).await.text);
    }

    /// Waits until the only missing image of the tenant `acme` has a look-up with this outcome, and returns the look-up.
    pub async fn wait_for_lookup(&self, outcome: &str) -> Value {
        let read = async || {
            let list = self.get("/v1/missing-symbols", &self.key).await.expect_status(200);
            list["items"][0]["lookups"][0].clone()
        };
        self.wait_for(outcome, async || read().await["outcome"] == outcome).await;
        read().await
    }

    /// Makes all requests due, and ends the pauses of sources.
    pub async fn ask_now(&self) {
        self.execute(
            "UPDATE symbol_source_requests SET due_at = now() - interval '1 second';
             UPDATE symbol_sources SET next_ask_at = now() - interval '1 second'",
        )
        .await;
    }

    /// Waits until the builder has been asked for the next revision of this many reports.
    pub async fn wait_for_revisions(&self, count: i64) {
        let asked =
            async || self.number("SELECT count(*) FROM outbox WHERE kind = 'resymbolicate'").await == count;
        self.wait_for("the next revision of the reports", asked).await;
    }

    /// Waits until two turns of each tenant's job have ended since the call: the first may have begun before.
    pub async fn wait_for_turns(&self) {
        for _ in 0..2 {
            let since = self.text("SELECT clock_timestamp()::text").await;
            let waiting = format!(
                "SELECT count(*) FROM jobs WHERE kind = '{ASKING_JOB_KIND}' AND updated_at <= '{since}'"
            );
            self.wait_for("a turn", async || self.number(&waiting).await == 0).await;
        }
    }
}

/// The dSYM of the fixture `name`, and its debug id.
pub fn read_dsym(name: &str) -> (Vec<u8>, DebugId) {
    let file = std::fs::read(fixtures::dsym(name)).unwrap();
    let debug_id = list_objects(&file).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    (file, debug_id)
}

/// The path of a debug id in the unified layout.
pub fn unified_path(debug_id: &DebugId) -> String {
    unslide_symbol_sources::SourceLayout::Unified.path_of_id(debug_id)
}
