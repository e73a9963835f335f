//! Topics and a database of one test's own, and indexers between them.

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use unslide_artifacts::ObjectStore;
use unslide_embedded::S3Endpoint;
use unslide_indexer::{Config, Settings};
use unslide_model::{Secret, SystemClock, TenantId};
use unslide_proto::headers;
use unslide_proto::topics::TopicNames;
use unslide_runtime::Host;
use unslide_store::Store;
use unslide_store::tenants::{self, QuotaLimits};
use unslide_stream::{OutRecord, Partitions, Producer, admin};
use unslide_testkit::servers;

const PATIENCE: Duration = Duration::from_secs(60);

pub fn acme() -> TenantId {
    TenantId::new("acme").unwrap()
}

/// Report `n` of `acme`, enriched; with `generation` its image was found.
pub fn report(n: u8, revision: u32, generation: Option<u64>) -> String {
    let id = format!("{n:02x}").repeat(16);
    let (status, image, counts) = match generation {
        None => ("partial", r#""status":"missing""#.to_owned(), r#""total":2,"missing":1,"symbolicated":1"#),
        Some(g) => {
            ("complete", format!(r#""status":"found","generation":{g}"#), r#""total":2,"symbolicated":2"#)
        }
    };
    format!(
        r#"{{"report":{{"id":"{id}"}},"system":{{"CFBundleIdentifier":"com.acme.shop","CFBundleShortVersionString":"1.0","device_app_hash":"d{n}"}},"crash":{{"error":{{"type":"mach"}}}},"symbolication":{{"version":1,"engine":"unslide/0.1.0","revision":{revision},"status":"{status}","frames":{{{counts}}},"images":[{{"debug_id":"11111111-1111-1111-1111-111111111111","name":"Shop","arch":"arm64",{image}}}]}}}}"#
    )
}

async fn execute(url: &str, statement: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
}

pub struct World {
    name: String,
    url: String,
    pub kafka: unslide_stream::Settings,
    objects: unslide_artifacts::Settings,
    s3: S3Endpoint,
    folder: tempfile::TempDir,
    pub producer: Producer,
    pub store: Store,
}

/// An indexer that runs.
pub struct Running {
    host: Host,
    task: JoinHandle<Result<(), unslide_indexer::Error>>,
}

impl World {
    pub async fn new() -> World {
        let name = servers::unique("unslide-indexer").replace('-', "_");
        execute(&servers::postgres(), &format!("CREATE DATABASE {name}")).await;
        let server = servers::postgres();
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        unslide_store::migrate(&Secret::new(url.clone())).await.unwrap();
        let settings = unslide_store::Settings::with_url(url.clone());
        let store = Store::connect(&settings, Arc::new(SystemClock)).await.unwrap();
        let mut tx = store.tenant(&acme()).await.unwrap();
        tenants::create(&mut tx, "Acme", &QuotaLimits::default()).await.unwrap();
        tx.commit().await.unwrap();
        let kafka = unslide_stream::Settings {
            topic_prefix: format!("{name}."),
            tenant_topics: true,
            topic_refresh_milliseconds: 500,
            partitions: Partitions { input: 1, output: 4, overflow: 1, internal: 1, tenant: 2 },
            ..unslide_stream::Settings::single_broker(servers::kafka())
        };
        admin::create(&kafka).await.unwrap();
        let producer = Producer::new(&kafka).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let s3 = S3Endpoint::start(folder.path(), "unslide").unwrap();
        let objects = unslide_artifacts::Settings {
            endpoint: Some(s3.url()),
            bucket: "unslide".to_owned(),
            access_key: Some(s3.access_key.clone()),
            secret_key: Secret::new(s3.secret_key.clone()),
            path_style: true,
            ..unslide_artifacts::Settings::default()
        };
        World { name, url, kafka, objects, s3, folder, producer, store }
    }

    pub fn topics(&self) -> TopicNames {
        self.kafka.topics()
    }

    pub async fn send(&self, n: u8, revision: u32, generation: Option<u64>) {
        let record = OutRecord::to(self.topics().output, report(n, revision, generation))
            .key(format!("acme/{n}"))
            .header(headers::TENANT, "acme")
            .header(headers::ORIGIN_TOPIC, "in")
            .header(headers::ORIGIN_PARTITION, "0")
            .header(headers::ORIGIN_OFFSET, n.to_string());
        self.producer.send(&record).await.unwrap();
    }

    pub async fn send_raw(&self, tenant: &'static str, value: &str) {
        let record = OutRecord::to(self.topics().output, value.to_owned()).header(headers::TENANT, tenant);
        self.producer.send(&record).await.unwrap();
    }

    /// A dead letter; without a reason one that the symbolizer did not write.
    pub async fn send_letter(
        &self,
        tenant: &'static str,
        reason: &'static str,
        value: Option<&'static [u8]>,
    ) {
        let mut record = OutRecord { topic: self.topics().dead_letter.into(), ..OutRecord::default() };
        record.value = value.map(Into::into);
        for (name, text) in [(headers::TENANT, tenant), (headers::REASON, reason)] {
            if !text.is_empty() {
                record.headers.push(name, text);
            }
        }
        self.producer.send(&record).await.unwrap();
    }

    /// A session event, as the api or a gateway sends it.
    pub async fn send_session(&self, tenant: &'static str, value: &str) {
        let record = OutRecord::to(self.topics().sessions, value.to_owned()).header(headers::TENANT, tenant);
        self.producer.send(&record).await.unwrap();
    }

    pub fn start(&self) -> Running {
        self.start_with(Settings::default())
    }

    /// An indexer with settings of its own, as far as they are none of the test's.
    pub fn start_with(&self, mut own: Settings) -> Running {
        (own.lease_seconds, own.upkeep_seconds) = (3, 1);
        let host = Host::local().unwrap().for_service("indexer").unwrap();
        let config = Config {
            indexer: own,
            symbolizer: unslide_indexer::SenderRules::default(),
            postgres: unslide_store::Settings::with_url(self.url.clone()),
            kafka: self.kafka.clone(),
            objects: self.objects.clone(),
        };
        assert_eq!(config.validate(), []);
        let task = tokio::spawn(unslide_indexer::run(config, host.clone()));
        Running { host, task }
    }

    /// Deletes what lies before an offset, as retention does.
    pub async fn delete_before(&self, topic: &str, partition: i32, offset: i64) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", servers::kafka());
        let client: AdminClient<DefaultClientContext> = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        let deleted = client.delete_records(&list, &AdminOptions::new()).await.unwrap();
        deleted.elements()[0].error().unwrap();
    }

    /// The bucket.
    pub async fn bucket(&self) -> ObjectStore {
        ObjectStore::s3(&self.objects).await
    }

    /// Changes the database as its owner.
    pub async fn execute(&self, statement: &str) {
        execute(&self.url, statement).await;
    }

    /// Lets nobody else at a table, until it is opened again.
    pub async fn close(&self, table: &str) -> PgConnection {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let lock = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut connection).await.unwrap();
        connection
    }

    /// Opens it again.
    pub async fn open(closed: PgConnection) {
        closed.close().await.unwrap();
    }

    pub async fn number(&self, query: &str) -> i64 {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let query = AssertSqlSafe(query.to_owned());
        sqlx::query(query).fetch_one(&mut connection).await.unwrap().get(0)
    }

    pub async fn text(&self, query: &str) -> String {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let query = AssertSqlSafe(query.to_owned());
        sqlx::query(query).fetch_one(&mut connection).await.unwrap().get(0)
    }

    /// Waits until a query gives a number.
    pub async fn until(&self, query: &str, wanted: i64) {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let found = self.number(query).await;
            if found == wanted {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{query}: {found} and not {wanted}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until every record that is in the topics now was read.
    pub async fn until_caught_up(&self) {
        for topic in
            [self.topics().output, self.topics().ledger, self.topics().dead_letter, self.topics().sessions]
        {
            let facts = unslide_stream::topic_facts(&self.kafka, &topic).await.unwrap();
            for held in facts.partitions {
                // What the idempotent producer wrote has no markers behind it.
                let query = format!(
                    "SELECT coalesce(max(next_offset), 0) FROM positions WHERE topic = '{topic}' AND partition = {}",
                    held.partition
                );
                self.until(&query, held.end).await;
            }
        }
    }

    /// Everything that the indexer keeps, as text.
    pub async fn dump(&self) -> String {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let mut dump = String::new();
        for table in [
            "report_keys",
            "reports",
            "report_bodies",
            "waits",
            "system_waits",
            "app_days",
            "app_devices",
            "wanted_images",
            "groups",
            "group_days",
            "sessions",
            "session_days",
            "symbol_slots",
            "outbox",
            "unreadable_records",
            "dead_letters",
        ] {
            let query = AssertSqlSafe(format!("SELECT t::text FROM {table} t ORDER BY 1"));
            for row in sqlx::query(query).fetch_all(&mut connection).await.unwrap() {
                dump.push_str(&format!("{table} {}\n", row.get::<String, _>(0)));
            }
        }
        dump
    }

    /// Leaves nothing behind.
    pub async fn end(self) {
        self.store.close().await;
        self.s3.stop().await;
        self.folder.close().unwrap();
        admin::delete(&self.kafka).await.unwrap();
        // Fails where a connection was left open.
        execute(&servers::postgres(), &format!("DROP DATABASE {}", self.name)).await;
    }
}

impl Running {
    pub async fn stop(self) {
        self.host.shutdown.begin();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it drains").unwrap().unwrap();
    }

    /// A counter's value, summed over its labels.
    pub fn counter(&self, name: &str) -> u64 {
        let page = self.host.process_metrics().page().unwrap();
        let lines = page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Waits until a counter has this value: it counts what was committed before.
    pub async fn until_counter(&self, name: &str, wanted: u64) {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let found = self.counter(name);
            if found == wanted {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{name}: {found} and not {wanted}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a probe fails with these words.
    pub async fn until_unready(&self, words: &str) {
        self.until(|answer| {
            answer.probes.values().any(|p| p.reason.as_ref().is_some_and(|reason| reason.contains(words)))
        })
        .await;
    }

    pub async fn until_ready(&self) {
        self.until(|answer| answer.ready && answer.probes.len() == 6).await;
    }

    async fn until(&self, wanted: impl Fn(&unslide_runtime::health::Readiness) -> bool) {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let answer = self.host.health.check().await;
            if wanted(&answer) {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
