//! A builder that analyses captures, with servers of its own.

use std::ops::Deref;
use std::path::Path;
use unslide_artifacts::ObjectStore;
use unslide_builder::{Config, Error, Settings};
use unslide_harness::TestServers;
pub use unslide_harness::acme;
use unslide_harness::service::RunningService;
use unslide_model::Owner;
use unslide_runtime::Host;
use unslide_sandbox::child::ChildProgram;
use unslide_store::uploads;

/// Probes of a builder that has started.
const PROBES: usize = 3;

pub struct World {
    pub objects: ObjectStore,
    servers: TestServers,
    builder: RunningService<Error>,
}

impl Deref for World {
    type Target = TestServers;

    fn deref(&self) -> &TestServers {
        &self.servers
    }
}

/// The child process of the builder: [`a_child_does_what_its_folder_says`], alone.
fn child() -> ChildProgram {
    let test = "captures::captures_builder::a_child_does_what_its_folder_says";
    ChildProgram::from_current_exe(&[test, "--exact", "--nocapture", "--test-threads=1"]).unwrap()
}

#[test]
fn a_child_does_what_its_folder_says() {
    if Path::new("request.json").exists() {
        let tasks = unslide_feature::collect_child_tasks(&[unslide_captures::FEATURE]);
        unslide_builder::serve_child(&tasks, &[]).unwrap();
    }
}

impl World {
    /// Servers, a tenant, and a builder.
    pub async fn start() -> World {
        let servers = TestServers::start("captures", |_| {}).await;
        let config = Config {
            builder: Settings {
                work_dir: servers.folder().join("work"),
                // A machine that is busy for some seconds takes no job away.
                lease_seconds: 60,
                ..Settings::default()
            },
            tenants: unslide_runtime::TenantDefaults::default(),
            postgres: servers.postgres.clone(),
            objects: servers.objects.clone(),
            kafka: servers.kafka.clone(),
            ..Config::default()
        };
        servers.make_tenant(&acme()).await;
        let (objects, host) = (servers.bucket().await, Host::local().unwrap());
        let features = unslide_feature::for_builder(&[unslide_captures::feature()]);
        let run = unslide_builder::run(config, features, host.clone(), child());
        World { objects, servers, builder: RunningService::spawn(host, PROBES, run) }
    }

    /// Uploads a file of symbols, and waits until they are published.
    pub async fn upload(&self, name: &str, bytes: &[u8]) {
        let owner = Owner::Tenant(acme());
        let id = self.receive_upload(&owner, name, bytes).await;
        assert_eq!(self.wait_for_upload(&owner, id).await.0.status, uploads::UploadStatus::Done);
    }

    /// Stops everything and takes it away.
    pub async fn stop(self) {
        self.builder.stop().await;
        self.servers.stop(false).await;
    }
}
