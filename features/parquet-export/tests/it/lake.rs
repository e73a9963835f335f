//! An api and a builder whose tenants' buckets are on this machine.

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Row;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use time::{Date, Duration, OffsetDateTime, Time};
use unslide_builder::{Config as BuilderConfig, Error, Settings};
use unslide_embedded::S3Endpoint;
use unslide_harness::database::arrival;
use unslide_harness::service::RunningService;
use unslide_history::HistorySettings;
use unslide_model::Secret;
use unslide_parquet_export::{Config, DayManifest, ExportSizes, ExportTimes};
use unslide_runtime::Host;
use unslide_sandbox::child::ChildProgram;
use unslide_store::reports::{self, Arrival, Effects};
use unslide_world::{Answer, World, tenant_id, wait_until};

pub const EXPORT: &str = "/v1/parquet-export";
/// Probes of a builder that has started.
const PROBES: usize = 3;

pub struct Lake {
    world: World,
    builder: Option<RunningService<Error>>,
    bucket: S3Endpoint,
    folder: tempfile::TempDir,
    config: Config,
    /// The history of a builder that starts later.
    pub history: HistorySettings,
    /// The key of the tenant `acme`.
    pub key: String,
}

impl Deref for Lake {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// The settings of an api and a builder that reach these ports of this machine, and write what is due at once.
pub fn settings(ports: &[u16]) -> Config {
    let mut config = Config::default();
    let settings = &mut config.builder.parquet_export;
    settings.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    settings.networks = vec!["127.0.0.0/8".to_owned()];
    settings.ports = ports.to_vec();
    settings.look_millis = 50;
    settings.times = ExportTimes {
        after_day: Duration::ZERO,
        quiet: Duration::ZERO,
        change_wait_max: Duration::ZERO,
        after_deletion: Duration::ZERO,
        ..ExportTimes::default()
    };
    config
}

impl Lake {
    /// Starts everything; beside the bucket the builder reaches these ports.
    pub async fn start(ports: &[u16]) -> Lake {
        Lake::start_with_sizes(ports, ExportSizes::default()).await
    }

    /// Does the same, with other sizes of files.
    pub async fn start_with_sizes(ports: &[u16], sizes: ExportSizes) -> Lake {
        let folder = tempfile::tempdir().unwrap();
        let bucket = S3Endpoint::start(folder.path(), "lake").unwrap();
        let port = bucket.url().rsplit(':').next().unwrap().parse().unwrap();
        let ports: Vec<u16> = ports.iter().copied().chain([port]).collect();
        let mut config = settings(&ports);
        config.builder.parquet_export.sizes = sizes;
        let feature = unslide_parquet_export::feature(&config);
        assert_eq!(feature.settings.as_ref().unwrap().problems, []);
        let features = [feature, unslide_person_erasure::feature(), unslide_console::feature()];
        let world = Box::pin(World::start(unslide_feature::for_api(&features), |_| {})).await;
        let key = world.create_master_key("acme").await;
        let history = HistorySettings::default();
        let mut lake = Lake { world, builder: None, bucket, folder, config, history, key };
        lake.start_builder();
        lake
    }

    /// Starts a builder.
    pub fn start_builder(&mut self) {
        let config = BuilderConfig {
            builder: Settings {
                work_dir: self.world.folder().join("work"),
                // A machine that is busy for some seconds takes no job away.
                lease_seconds: 60,
                ..Settings::default()
            },
            tenants: unslide_runtime::TenantDefaults::default(),
            postgres: self.world.postgres.clone(),
            objects: self.world.objects.clone(),
            kafka: self.world.kafka.clone(),
            history: self.history.clone(),
        };
        let host = Host::local().unwrap();
        let features = [unslide_parquet_export::feature(&self.config), unslide_person_erasure::feature()];
        let child = ChildProgram::from_current_exe(&["--list"]).unwrap();
        let run = unslide_builder::run(config, unslide_feature::for_builder(&features), host.clone(), child);
        self.builder = Some(RunningService::spawn(host, PROBES, run));
    }

    /// Ends the builder in the middle of its work.
    pub async fn kill_builder(&mut self) {
        self.builder.take().unwrap().kill().await;
    }

    /// Stops everything and takes it away.
    pub async fn stop(mut self) {
        if let Some(builder) = self.builder.take() {
            builder.stop().await;
        }
        self.world.stop().await;
        self.bucket.stop().await;
    }

    pub async fn put(&self, key: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PUT, EXPORT, key).json(body)).await
    }

    /// The setting of the bucket.
    pub fn bucket_body(&self) -> Value {
        json!({"address": self.bucket.url(), "bucket": "lake", "prefix": "crashes", "region": "eu-central-1",
               "access_key": self.bucket.access_key, "secret_key": self.bucket.secret_key})
    }

    /// Sets the bucket as the export of the tenant `acme`, from this many days ago on.
    pub async fn set_export(&self, days_ago: i64) {
        self.put(&self.key, &self.bucket_body()).await.expect_status(200);
        self.begin_days_ago(days_ago).await;
    }

    /// Has the export begin this many days ago.
    pub async fn begin_days_ago(&self, days_ago: i64) {
        let day = self.day_ago(days_ago);
        self.execute(&format!("UPDATE parquet_exports SET first_day = '{day}', next_day = '{day}'")).await;
    }

    /// Returns the export of the tenant `acme`.
    pub async fn read_export(&self) -> Value {
        self.get(EXPORT, &self.key).await.expect_status(200)["export"].clone()
    }

    /// Returns the day this many days ago.
    pub fn day_ago(&self, days: i64) -> Date {
        self.host.clock.now().date() - Duration::days(days)
    }

    /// Returns report `number` of an app, which arrived at noon of a day.
    pub fn report(&self, number: u8, app: &str, days_ago: i64) -> Arrival {
        let noon =
            OffsetDateTime::new_utc(self.day_ago(days_ago), Time::from_hms(12, 0, number % 60).unwrap());
        let mut report = Arrival { received_at: noon, ..arrival(number) };
        report.facts.app = app.to_owned();
        report
    }

    /// Returns a hang that represents three others, which were not sent.
    pub fn sampled_hang(&self, number: u8, days_ago: i64) -> Arrival {
        let mut report = self.report(number, "com.acme.shop", days_ago);
        report.facts.sampled = Some(0.25);
        report.facts.kind = "hang".to_owned();
        if let Some(grouping) = &mut report.facts.grouping {
            grouping.kind = "hang".to_owned();
        }
        report
    }

    /// Stores reports of the tenant `acme`.
    pub async fn store_reports(&self, reports: &[Arrival]) {
        let (first, last) = (self.day_ago(30), self.day_ago(0));
        unslide_store::partitions::ensure_partitions(&self.store, first, last).await.unwrap();
        let mut tx = self.store.tenant(&tenant_id("acme")).await.unwrap();
        reports::store_arrivals(&mut tx, reports, Effects::Now, None).await.unwrap();
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
        assert!(holds.await, "{what}: {}", self.get(EXPORT, &self.key).await.text);
    }

    /// Waits until all days before today are in the bucket, without a change that waits.
    pub async fn wait_until_written(&self) {
        let today = self.day_ago(0).to_string();
        let is_written = async || {
            let changes = self.number("SELECT count(*) FROM parquet_day_changes").await;
            let export = self.read_export().await;
            changes == 0 && export["next_day"] == json!(today) && export["changed_days"] == 0
        };
        self.wait_for("all days", is_written).await;
    }

    /// Waits until two turns of the job have ended since the call: the first may have begun before.
    pub async fn wait_for_turns(&self) {
        for _ in 0..2 {
            let since = self.text("SELECT clock_timestamp()::text").await;
            let waiting = format!(
                "SELECT count(*) FROM jobs WHERE kind = '{}' AND updated_at <= '{since}'",
                unslide_parquet_export::WRITING_JOB_KIND
            );
            self.wait_for("a turn", async || self.number(&waiting).await == 0).await;
        }
    }

    /// Returns the folder of the prefix.
    pub fn prefix_folder(&self) -> PathBuf {
        self.folder.path().join("s3/lake/crashes")
    }

    /// Returns the manifest of a day.
    pub fn read_manifest(&self, days_ago: i64) -> DayManifest {
        let path = format!("manifests/{}.json", self.day_ago(days_ago));
        serde_json::from_slice(&std::fs::read(self.prefix_folder().join(path)).unwrap()).unwrap()
    }

    /// Returns the rows of the files that the manifest of a day names, which are as it says.
    pub fn read_rows(&self, days_ago: i64) -> Vec<Row> {
        let manifest = self.read_manifest(days_ago);
        let mut rows = Vec::new();
        for file in &manifest.files {
            let bytes = std::fs::read(self.prefix_folder().join(&file.path)).unwrap();
            assert_eq!(bytes.len() as u64, file.bytes);
            assert_eq!(file.sha256.to_string(), hash_hex(&bytes));
            let read = read_file(bytes);
            assert_eq!(read.len() as u64, file.rows, "{}", file.path);
            rows.extend(read);
        }
        assert_eq!(rows.len() as u64, manifest.rows);
        rows
    }

    /// Returns the paths of all objects with rows of a day, in the manifest or not.
    pub fn list_files(&self, days_ago: i64) -> BTreeSet<String> {
        let folder = self.prefix_folder();
        let day = folder.join(format!("reports/day={}", self.day_ago(days_ago)));
        let mut found = BTreeSet::new();
        if !day.exists() {
            return found;
        }
        for app in
            std::fs::read_dir(day).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
        {
            for file in std::fs::read_dir(app).unwrap().map(|entry| entry.unwrap().path()) {
                found.insert(relative(&file, &folder));
            }
        }
        found
    }

    /// Returns the paths that the manifest of a day names.
    pub fn list_named(&self, days_ago: i64) -> BTreeSet<String> {
        self.read_manifest(days_ago).files.into_iter().map(|file| file.path).collect()
    }
}

fn relative(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned()
}

fn hash_hex(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a Parquet file.
pub fn read_file(bytes: Vec<u8>) -> Vec<Row> {
    let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

/// Returns the values of a column as texts.
pub fn column_texts(rows: &[Row], name: &str) -> Vec<String> {
    let value = |row: &Row| {
        let found = row.get_column_iter().find(|(column, _)| *column == name);
        found.unwrap().1.to_string().trim_matches('"').to_owned()
    };
    rows.iter().map(value).collect()
}
