//! An api with this feature, and a builder that has built uploads.

use std::ops::Deref;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinHandle;
use unslide_builder::{Config, Error, Settings};
use unslide_model::{DebugId, Scope};
use unslide_runtime::Host;
use unslide_sandbox::child::ChildProgram;
use unslide_symbolicate::object::list_objects;
use unslide_testkit::fixtures::dsym;
use unslide_world::World;

pub const APP: &str = "com.example.shop";

/// The child process of the builder: [`a_child_does_what_its_folder_says`], alone.
fn child() -> ChildProgram {
    let test = "symbol_server::world::a_child_does_what_its_folder_says";
    ChildProgram::from_current_exe(&[test, "--exact", "--nocapture", "--test-threads=1"]).unwrap()
}

#[test]
fn a_child_does_what_its_folder_says() {
    if Path::new("request.json").exists() {
        unslide_builder::serve_child(&[], &[]).unwrap();
    }
}

/// An api and a builder.
pub struct SymbolWorld {
    world: World,
    host: Host,
    builder: JoinHandle<Result<(), Error>>,
}

impl Deref for SymbolWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl SymbolWorld {
    pub async fn start() -> SymbolWorld {
        let feature = unslide_symbol_server::feature();
        let world = World::start(unslide_feature::for_api(std::slice::from_ref(&feature)), |_| {}).await;
        let config = Config {
            builder: Settings {
                work_dir: world.folder().join("work"),
                lease_seconds: 60,
                ..Settings::default()
            },
            tenants: unslide_runtime::TenantDefaults::default(),
            postgres: world.config.postgres.clone(),
            objects: world.config.objects.clone(),
            kafka: world.config.kafka.clone(),
            ..Config::default()
        };
        let (host, features) = (Host::local().unwrap(), unslide_feature::for_builder(&[feature]));
        let builder = tokio::spawn(unslide_builder::run(config, features, host.clone(), child()));
        SymbolWorld { world, host, builder }
    }

    pub async fn stop(self) {
        self.host.shutdown.begin();
        tokio::time::timeout(Duration::from_secs(300), self.builder).await.unwrap().unwrap().unwrap();
        self.host.health.clear();
        self.world.stop().await;
    }

    /// Uploads a file for an app, and waits until it is built.
    pub async fn upload(&self, tenant: &str, file: &Path, app: &str) -> UploadedFile {
        let bytes = std::fs::read(file).unwrap();
        let objects = list_objects(&bytes).unwrap();
        let ids: Vec<DebugId> =
            objects.iter().map(|object| object.object.as_ref().unwrap().debug_id.unwrap()).collect();
        let slices = objects.iter().map(|object| bytes[object.range.clone()].to_vec()).collect();
        let key = self.create_key(tenant, &[Scope::SymbolsWrite]).await;
        let name = file.file_name().unwrap().to_str().unwrap();
        let path = format!("/v1/symbols?name={name}&app={app}");
        let upload = self.post(&path, &key, bytes).await.expect_status(202);
        let path = format!("/v1/symbols/uploads/{}?wait=30s", upload["id"].as_str().unwrap());
        for _ in 0..10 {
            if self.get(&path, &key).await.expect_status(200)["status"] == "done" {
                return UploadedFile { ids, slices };
            }
        }
        panic!("the upload is not done");
    }

    pub async fn upload_dsym(&self, tenant: &str, fixture: &str) -> UploadedFile {
        self.upload(tenant, &dsym(fixture), APP).await
    }
}

/// An uploaded file: the debug ids and the bytes of its slices.
pub struct UploadedFile {
    pub ids: Vec<DebugId>,
    pub slices: Vec<Vec<u8>>,
}
