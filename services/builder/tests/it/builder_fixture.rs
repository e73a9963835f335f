//! A builder with servers of its own: a database, topics and a bucket.

use crate::{child, feature};
use std::io::{Cursor, Write};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use unslide_artifacts::{AliasMeta, ObjectStore, keys};
use unslide_builder::{BuilderFeatures, Config, Error, Settings};
use unslide_harness::TestServers;
pub use unslide_harness::acme;
use unslide_harness::service::RunningService;
use unslide_model::{DebugId, Owner, Scoped};
use unslide_proto::Message;
use unslide_proto::symbol::SymbolEvent;
use unslide_runtime::Host;
use unslide_store::objects::ObjectRow;
use unslide_store::slots::SymbolSlot;
use unslide_store::uploads::{SymbolUpload, UploadObject};
use unslide_store::{UploadId, slots, uploads};
use unslide_stream::{Record, TailEvent, TailReader};
use unslide_symbolicate::symcache::SYMCACHE_VERSION;
use zip::write::SimpleFileOptions;

/// Bounds what a test waits for, on a machine that is busy.
pub const BUILDER_TIMEOUT: Duration = Duration::from_secs(300);

/// Probes of a builder that has started.
const PROBES: [&str; 3] = ["kafka", "objects", "postgres"];

pub struct World {
    pub config: Box<Config>,
    pub objects: ObjectStore,
    pub host: Host,
    servers: TestServers,
    builders: Vec<RunningService<Error>>,
    killed: bool,
}

impl Deref for World {
    type Target = TestServers;

    fn deref(&self) -> &TestServers {
        &self.servers
    }
}

impl World {
    /// Servers, a tenant, and `builders` builders.
    pub async fn start(builders: usize) -> World {
        let servers = TestServers::start("builder", |_| {}).await;
        let config = Box::new(Config {
            builder: Settings {
                work_dir: servers.folder().join("work"),
                // Nobody dies: a machine that is busy for some seconds takes no job away.
                lease_seconds: 60,
                ..Settings::default()
            },
            tenants: unslide_runtime::TenantDefaults::default(),
            postgres: servers.postgres.clone(),
            objects: servers.objects.clone(),
            kafka: servers.kafka.clone(),
            ..Config::default()
        });
        assert_eq!(config.validate(), []);
        servers.make_tenant(&acme()).await;
        let (objects, host) = (servers.bucket().await, Host::local().unwrap());
        let mut world = World { config, objects, host, servers, builders: Vec::new(), killed: false };
        for _ in 0..builders {
            world.builder();
        }
        world
    }

    /// One more builder.
    pub fn builder(&mut self) {
        let host = Host::local().unwrap();
        let features = BuilderFeatures {
            features: vec![feature::FEATURE],
            derived: vec![feature::LENGTH, feature::DAMAGED, feature::CODE],
            ..BuilderFeatures::default()
        };
        let run = unslide_builder::run((*self.config).clone(), features, host.clone(), child::program());
        self.builders.push(RunningService::spawn(host, PROBES.len(), run));
    }

    pub async fn stop_builders(&mut self) {
        for builder in self.builders.drain(..) {
            builder.stop().await;
        }
    }

    /// Ends the builders where they are, as a kill does.
    pub async fn kill_builders(&mut self) {
        for builder in self.builders.drain(..) {
            builder.kill().await;
        }
        self.killed = true;
    }

    /// Running jobs of a kind, by the builders' metrics.
    pub fn running(&self, kind: &str) -> i64 {
        self.figure("unslide_builder_jobs_running", kind)
    }

    /// Waits until a gauge without labels has this value, all builders together.
    pub async fn until_gauge(&self, name: &str, wanted: i64) {
        let gauge = || -> i64 {
            let families = self.builders.iter().flat_map(|builder| builder.host.metrics.gather());
            let of = families.filter(|family| family.name() == name);
            of.flat_map(|mut family| family.take_metric()).map(|m| m.get_gauge().get_value() as i64).sum()
        };
        let reached = async {
            while gauge() != wanted {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(BUILDER_TIMEOUT, reached).await;
        assert!(reached.is_ok(), "{name} is {} and not {wanted}", gauge());
    }

    /// A gauge or a counter of all builders together, of one value of its label.
    pub fn figure(&self, name: &str, value: &str) -> i64 {
        let families = self.builders.iter().flat_map(|builder| builder.host.metrics.gather());
        let of = families.filter(|family| family.name() == name);
        let metrics: Vec<_> = of.flat_map(|mut family| family.take_metric()).collect();
        let ours = metrics.iter().filter(|m| m.get_label().iter().any(|l| l.value() == value));
        ours.map(|metric| (metric.get_gauge().get_value() + metric.get_counter().get_value()) as i64).sum()
    }

    /// What the builder that was started last needs and does not have, with the reasons.
    pub async fn lacks(&self) -> Vec<(String, String)> {
        let builder = self.builders.last().unwrap();
        let probes = builder.host.health.ask_now().await.probes;
        if !probes.keys().eq(PROBES) {
            return vec![("starting".to_owned(), format!("{probes:?}"))];
        }
        probes.into_iter().filter_map(|(name, probe)| Some((name, probe.reason?))).collect()
    }

    /// Stops everything and takes it away; fails where a builder left something behind.
    pub async fn stop(mut self) {
        self.stop_builders().await;
        let left: Vec<_> = std::fs::read_dir(&self.config.builder.work_dir)
            .map(|entries| entries.map(|e| e.unwrap().path()).collect())
            .unwrap_or_default();
        assert_eq!(left, Vec::<std::path::PathBuf>::new(), "files left in the work folder");
        self.servers.stop(self.killed).await;
    }

    /// Takes object storage away, and brings it back under the same address.
    pub async fn storage(&mut self, up: bool) {
        self.servers.run_storage(up).await;
    }

    /// What the api does with an upload.
    pub async fn upload(&self, name: &str, bytes: &[u8]) -> UploadId {
        self.receive_upload(&Owner::Tenant(acme()), name, bytes).await
    }

    pub async fn wait(&self, id: UploadId) -> (SymbolUpload, Vec<UploadObject>) {
        self.wait_for_upload(&Owner::Tenant(acme()), id).await
    }

    /// Uploads, waits, and gives the one object that was found.
    pub async fn one(&self, name: &str, bytes: &[u8]) -> (ObjectRow, bool) {
        let (upload, mut objects) = self.wait(self.upload(name, bytes).await).await;
        assert_eq!(upload.status, uploads::UploadStatus::Done, "{upload:?}");
        assert_eq!(objects.len(), 1, "{objects:?}");
        let object = objects.swap_remove(0);
        (object.object, object.known)
    }

    /// Waits until no upload's file is left: it goes after the upload is done.
    pub async fn files_gone(&self) {
        use sqlx::Connection;
        let mut connection = self.connect().await;
        let left = "SELECT count(*) FROM uploads WHERE file_gone_at IS NULL";
        let gone = async {
            while sqlx::query_scalar::<_, i64>(left).fetch_one(&mut connection).await.unwrap() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(BUILDER_TIMEOUT, gone).await.expect("the files go");
        connection.close().await.unwrap();
    }

    pub async fn slot(&self, id: &DebugId) -> Option<SymbolSlot> {
        let mut tx = self.store.tenant(&acme()).await.unwrap();
        let slot = slots::get(&mut tx, id).await.unwrap();
        tx.rollback().await.unwrap();
        slot
    }

    pub async fn alias(&self, id: &Scoped<DebugId>) -> Option<AliasMeta> {
        let head = self.objects.head(&keys::for_symbols(id).alias(SYMCACHE_VERSION)).await.unwrap()?;
        Some(AliasMeta::from_metadata(&head.metadata).unwrap())
    }

    /// Reads a topic from its start on.
    pub fn read(&self, topic: &str) -> Topic {
        let (sender, records) = unbounded_channel();
        let reader =
            TailReader::start(&self.config.kafka, topic, Arc::clone(&self.host.clock), move |event| {
                if let TailEvent::Record(record) = event {
                    let _ = sender.send(record);
                }
            })
            .unwrap();
        Topic { records, reader }
    }

    /// Says whether a topic got no record that was not taken, once every job is done and every message is sent.
    pub async fn is_quiet(&self, topic: &mut Topic) -> bool {
        self.wait_until_idle().await;
        self.wait_for_number("SELECT count(*) FROM outbox WHERE sent_at IS NULL", 0).await;
        topic.is_empty().await
    }

    pub fn symbol_events(&self) -> Topic {
        self.read(&self.config.kafka.topic_names().symbol_events)
    }
}

pub struct Topic {
    records: UnboundedReceiver<Record>,
    reader: TailReader,
}

impl Topic {
    pub async fn next(&mut self) -> Record {
        tokio::time::timeout(BUILDER_TIMEOUT, self.records.recv()).await.expect("a record").unwrap()
    }

    pub async fn event(&mut self) -> SymbolEvent {
        SymbolEvent::decode(self.next().await.value.unwrap()).unwrap()
    }

    /// Waits until everything is read that the topic holds now.
    pub async fn read_to_end(&self) {
        self.reader.refresh(BUILDER_TIMEOUT).await.unwrap();
    }

    /// Says whether the topic holds no record that was not taken.
    pub async fn is_empty(&mut self) -> bool {
        self.read_to_end().await;
        self.records.is_empty()
    }

    /// Returns the next record, or none if nothing comes for two seconds. A real pause: a relay that has lost its session
    /// may still be sending, and nothing says when it has stopped.
    pub async fn next_unless_quiet(&mut self) -> Option<Record> {
        let next = tokio::time::timeout(Duration::from_secs(2), self.records.recv()).await;
        next.ok().map(Option::unwrap)
    }
}

pub fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
