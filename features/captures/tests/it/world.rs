//! A builder that analyses captures, with servers of its own.

use std::ops::Deref;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinHandle;
use unslide_artifacts::{ObjectStore, Put, keys};
use unslide_builder::{Config, Error, Settings};
use unslide_harness::TestServers;
use unslide_model::{Owner, TenantId};
use unslide_runtime::Host;
use unslide_runtime::child::ChildProgram;
use unslide_store::{jobs, uploads};

pub struct World {
    pub objects: ObjectStore,
    host: Host,
    servers: TestServers,
    builder: JoinHandle<Result<(), Error>>,
}

impl Deref for World {
    type Target = TestServers;

    fn deref(&self) -> &TestServers {
        &self.servers
    }
}

pub fn acme() -> TenantId {
    TenantId::new("acme").unwrap()
}

/// The child process of the builder: [`a_child_does_what_its_folder_says`], alone.
fn child() -> ChildProgram {
    let test = "world::a_child_does_what_its_folder_says";
    ChildProgram::from_current_exe(&[test, "--exact", "--nocapture", "--test-threads=1"]).unwrap()
}

#[test]
fn a_child_does_what_its_folder_says() {
    if Path::new("request.json").exists() {
        unslide_builder::serve_child(&[unslide_captures::ANALYSIS_TASK]).unwrap();
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
        };
        servers.make_tenant(&acme()).await;
        let (objects, host) = (servers.bucket().await, Host::local().unwrap());
        let features = unslide_feature::for_builder(&[unslide_captures::feature()]);
        let builder = tokio::spawn(unslide_builder::run(config, features, host.clone(), child()));
        World { objects, host, servers, builder }
    }

    /// Uploads a file of symbols, and waits until they are published.
    pub async fn upload(&self, name: &str, bytes: &[u8]) {
        let owner = Owner::Tenant(acme());
        let mut tx = self.store.owner(&owner).await.unwrap();
        let id = uploads::create_upload(&mut tx, Some(name), None).await.unwrap();
        tx.commit().await.unwrap();
        let key = keys::for_upload(owner.own(id));
        let stored = self.objects.put_stream(&key, bytes, u64::MAX, &Put::default()).await.unwrap();
        let mut tx = self.store.owner(&owner).await.unwrap();
        assert!(uploads::record_received(&mut tx, id, stored.size, &stored.sha256).await.unwrap());
        tx.commit().await.unwrap();
        let done = uploads::wait_for_status(&self.store, owner, id, Duration::from_secs(300)).await.unwrap();
        assert_eq!(done.unwrap().0.status, uploads::UploadStatus::Done);
    }

    /// Waits until no job is left.
    pub async fn idle(&self) {
        while !jobs::count_jobs(&self.store).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops everything and takes it away.
    pub async fn stop(self) {
        self.host.shutdown.begin();
        tokio::time::timeout(Duration::from_secs(60), self.builder).await.unwrap().unwrap().unwrap();
        self.host.health.clear();
        self.servers.stop(false).await;
    }
}
