//! A builder with servers of its own: a database, topics and a bucket.

use crate::child;
use std::io::{Cursor, Write};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use unslide_artifacts::{AliasMeta, ObjectStore, Put, keys};
use unslide_builder::{Config, Error, Settings};
use unslide_embedded::S3Endpoint;
use unslide_model::{DebugId, Owner, Scoped, Secret, TenantId};
use unslide_proto::Message;
use unslide_proto::symbol::SymbolEvent;
use unslide_runtime::Host;
use unslide_store::objects::ObjectRow;
use unslide_store::slots::SymbolSlot;
use unslide_store::uploads::{SymbolUpload, UploadObject};
use unslide_store::{Store, Uuid, jobs, slots, tenants, uploads};
use unslide_stream::{Record, TailEvent, TailReader, admin};
use unslide_symbolicate::symcache::VERSION;
use unslide_testkit::servers;
use zip::write::SimpleFileOptions;

const BUCKET: &str = "unslide";

pub struct World {
    pub config: Config,
    pub store: Store,
    pub objects: ObjectStore,
    pub host: Host,
    pub folder: TempDir,
    s3: Option<S3Endpoint>,
    database: String,
    builders: Vec<(Host, JoinHandle<Result<(), Error>>)>,
    killed: bool,
}

async fn admin_sql(statement: &str) {
    use sqlx::{Connection, PgConnection};
    let mut connection = PgConnection::connect(&servers::postgres()).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

pub fn acme() -> TenantId {
    TenantId::new("acme").unwrap()
}

impl World {
    /// Servers, a tenant, and so many builders.
    pub async fn start(builders: usize) -> World {
        let folder = tempfile::tempdir().unwrap();
        let s3 = S3Endpoint::start(folder.path(), BUCKET).unwrap();
        let database = servers::unique("builder").replace('-', "_");
        admin_sql(&format!("CREATE DATABASE {database}")).await;
        let url = servers::postgres();
        let (server, _) = url.rsplit_once('/').unwrap();
        let config = Config {
            builder: Settings {
                work_dir: folder.path().join("work"),
                // Nobody dies: a machine that is busy for some seconds takes no job away.
                lease_seconds: 60,
                ..Settings::default()
            },
            tenants: unslide_runtime::TenantDefaults::default(),
            postgres: unslide_store::Settings::with_url(format!("{server}/{database}")),
            objects: unslide_artifacts::Settings {
                endpoint: Some(s3.url()),
                bucket: BUCKET.to_owned(),
                access_key: Some(s3.access_key.clone()),
                secret_key: Secret::new(s3.secret_key.clone()),
                path_style: true,
                ..unslide_artifacts::Settings::default()
            },
            kafka: unslide_stream::Settings {
                topic_prefix: format!("{}.", servers::unique("builder")),
                ..unslide_stream::Settings::single_broker(servers::kafka())
            },
        };
        assert_eq!(config.validate(), []);
        unslide_store::migrate(&config.postgres.url).await.unwrap();
        admin::create(&config.kafka).await.unwrap();
        let host = Host::local().unwrap();
        let store = Store::connect(&config.postgres, host.clock.clone()).await.unwrap();
        let mut tx = store.tenant(&acme()).await.unwrap();
        tenants::create(&mut tx, "Acme", &tenants::QuotaLimits::default()).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        let objects = ObjectStore::s3(&config.objects).await;
        let mut world = World {
            config,
            store,
            objects,
            host,
            folder,
            s3: Some(s3),
            database,
            builders: Vec::new(),
            killed: false,
        };
        for _ in 0..builders {
            world.builder();
        }
        world
    }

    /// One more builder.
    pub fn builder(&mut self) {
        let host = Host::local().unwrap();
        let running = tokio::spawn(unslide_builder::run(self.config.clone(), host.clone(), child::program()));
        self.builders.push((host, running));
    }

    pub async fn stop_builders(&mut self) {
        for (host, running) in self.builders.drain(..) {
            host.shutdown.begin();
            tokio::time::timeout(Duration::from_secs(60), running).await.unwrap().unwrap().unwrap();
            host.health.clear();
        }
    }

    /// Ends the builders where they are, as a kill does.
    pub async fn kill_builders(&mut self) {
        for (host, running) in self.builders.drain(..) {
            running.abort();
            assert!(running.await.unwrap_err().is_cancelled());
            // The probes hold the builder, and with it its connections.
            host.health.clear();
        }
        self.killed = true;
    }

    /// Jobs of a kind that the builders have in work, as their metrics say.
    pub fn running(&self, kind: &str) -> i64 {
        self.figure("unslide_builder_jobs_running", kind)
    }

    /// A gauge without labels, of all builders together.
    pub fn gauge(&self, name: &str) -> i64 {
        let families = self.builders.iter().flat_map(|(host, _)| host.metrics.gather());
        let of = families.filter(|family| family.name() == name);
        of.flat_map(|mut family| family.take_metric()).map(|m| m.get_gauge().get_value() as i64).sum()
    }

    /// A gauge of all builders together, of one value of its label.
    pub fn figure(&self, name: &str, value: &str) -> i64 {
        let families = self.builders.iter().flat_map(|(host, _)| host.metrics.gather());
        let of = families.filter(|family| family.name() == name);
        let metrics: Vec<_> = of.flat_map(|mut family| family.take_metric()).collect();
        let ours = metrics.iter().filter(|m| m.get_label().iter().any(|l| l.value() == value));
        ours.map(|metric| metric.get_gauge().get_value() as i64).sum()
    }

    /// What the builder that was started last needs and does not have, with the reasons.
    pub async fn lacks(&self) -> Vec<(String, String)> {
        let (host, _) = self.builders.last().unwrap();
        let probes = host.health.ask_now().await.probes;
        if !probes.keys().eq(["kafka", "objects", "postgres"]) {
            return vec![("starting".to_owned(), format!("{probes:?}"))];
        }
        probes.into_iter().filter_map(|(name, probe)| Some((name, probe.reason?))).collect()
    }

    /// Lets nobody connect to the database any more, and throws out who is; or lets them in again.
    pub async fn database(&self, up: bool) {
        admin_sql(&format!("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {up}", self.database)).await;
        if !up {
            let of = format!("datname = '{}' AND pid <> pg_backend_pid()", self.database);
            admin_sql(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {of}")).await;
        }
    }

    /// A connection of the tests' own, which may do everything.
    pub async fn connect(&self) -> sqlx::PgConnection {
        use sqlx::Connection;
        sqlx::PgConnection::connect(self.config.postgres.url.reveal()).await.unwrap()
    }

    /// Stops everything and takes it away; fails where a builder left something behind.
    pub async fn stop(mut self) {
        self.stop_builders().await;
        let left: Vec<_> = std::fs::read_dir(&self.config.builder.work_dir)
            .map(|entries| entries.map(|e| e.unwrap().path()).collect())
            .unwrap_or_default();
        assert_eq!(left, Vec::<std::path::PathBuf>::new(), "files left in the work folder");
        self.store.close().await;
        admin::delete(&self.config.kafka).await.unwrap();
        // Fails where a connection was left open, which only a killed builder may do.
        let force = if self.killed { " WITH (FORCE)" } else { "" };
        admin_sql(&format!("DROP DATABASE {}{force}", self.database)).await;
        if let Some(s3) = self.s3.take() {
            s3.stop().await;
        }
    }

    /// Takes object storage away, and brings it back under the same address.
    pub async fn storage(&mut self, up: bool) {
        match (up, self.s3.take()) {
            (false, Some(s3)) => s3.stop().await,
            (true, None) => self.s3 = Some(S3Endpoint::start(self.folder.path(), BUCKET).unwrap()),
            (_, s3) => self.s3 = s3,
        }
    }

    /// What the api does with an upload.
    pub async fn upload(&self, name: &str, bytes: &[u8]) -> Uuid {
        self.upload_of(&Owner::Tenant(acme()), name, bytes).await
    }

    /// The same for any owner.
    pub async fn upload_of(&self, owner: &Owner, name: &str, bytes: &[u8]) -> Uuid {
        let mut tx = self.store.owner(owner).await.unwrap();
        let id = uploads::create(&mut tx, Some(name), None).await.unwrap();
        tx.commit().await.unwrap();
        let key = keys::upload(owner.own(id));
        let stored = self.objects.put_stream(&key, bytes, u64::MAX, &Put::default()).await.unwrap();
        let mut tx = self.store.owner(owner).await.unwrap();
        assert!(uploads::received(&mut tx, id, stored.size, &stored.sha256).await.unwrap());
        tx.commit().await.unwrap();
        id
    }

    pub async fn wait(&self, id: Uuid) -> (SymbolUpload, Vec<UploadObject>) {
        self.wait_of(&Owner::Tenant(acme()), id).await
    }

    /// The same for any owner.
    pub async fn wait_of(&self, owner: &Owner, id: Uuid) -> (SymbolUpload, Vec<UploadObject>) {
        let found =
            uploads::wait(&self.store, owner.clone(), id, Duration::from_secs(300)).await.unwrap().unwrap();
        assert!(found.0.status.is_final(), "{found:?}");
        found
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
        tokio::time::timeout(Duration::from_secs(60), gone).await.expect("the files go");
        connection.close().await.unwrap();
    }

    /// Waits until no job is left.
    pub async fn idle(&self) {
        while !jobs::counts(&self.store).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn slot(&self, id: &DebugId) -> Option<SymbolSlot> {
        let mut tx = self.store.tenant(&acme()).await.unwrap();
        let slot = slots::get(&mut tx, id).await.unwrap();
        tx.rollback().await.unwrap();
        slot
    }

    pub async fn alias(&self, id: &Scoped<DebugId>) -> Option<AliasMeta> {
        let head = self.objects.head(&keys::symbols(id).alias(VERSION)).await.unwrap()?;
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
        Topic { records, _reader: reader }
    }

    pub fn symbol_events(&self) -> Topic {
        self.read(&self.config.kafka.topics().symbol_events)
    }
}

pub struct Topic {
    records: UnboundedReceiver<Record>,
    _reader: TailReader,
}

impl Topic {
    pub async fn next(&mut self) -> Record {
        let next = tokio::time::timeout(Duration::from_secs(30), self.records.recv()).await;
        next.expect("a record within 30 s").unwrap()
    }

    pub async fn event(&mut self) -> SymbolEvent {
        SymbolEvent::decode(self.next().await.value.unwrap()).unwrap()
    }

    /// True where nothing comes for a while.
    pub async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(2), self.records.recv()).await.is_err()
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
