//! Topics and a database of one test's own, and indexers between them.

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};
use std::ops::Deref;
use unslide_harness::TestServers;
pub use unslide_harness::acme;
use unslide_harness::service::RunningService;
use unslide_indexer::{Config, IndexerFeatures, Settings};
use unslide_proto::headers;
use unslide_proto::topics::TopicNames;
use unslide_runtime::Host;
use unslide_stream::{OutRecord, Partitions, Producer};
use unslide_testkit::servers;

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

/// An indexer of a test, while it runs.
pub type Running = RunningService<unslide_indexer::Error>;
/// Probes of an indexer that has started.
const PROBES: usize = 5;

pub struct World {
    pub producer: Producer,
    servers: TestServers,
}

impl Deref for World {
    type Target = TestServers;

    fn deref(&self) -> &TestServers {
        &self.servers
    }
}

impl World {
    pub async fn new() -> World {
        let servers = TestServers::start("indexer", |kafka| {
            kafka.tenant_topics = true;
            kafka.topic_refresh_milliseconds = 500;
            kafka.partitions = Partitions { input: 1, output: 4, overflow: 1, internal: 1, tenant: 2 };
        })
        .await;
        servers.make_tenant(&acme()).await;
        World { producer: Producer::new(&servers.kafka).unwrap(), servers }
    }

    pub fn topics(&self) -> TopicNames {
        self.kafka.topic_names()
    }

    pub async fn send(&self, n: u8, revision: u32, generation: Option<u64>) {
        let record = OutRecord::for_topic(self.topics().output, report(n, revision, generation))
            .key(format!("acme/{n}"))
            .header(headers::TENANT, "acme")
            .header(headers::ORIGIN_TOPIC, "in")
            .header(headers::ORIGIN_PARTITION, "0")
            .header(headers::ORIGIN_OFFSET, n.to_string());
        self.producer.send_record(&record).await.unwrap();
    }

    pub async fn send_raw(&self, tenant: &'static str, value: &str) {
        let record =
            OutRecord::for_topic(self.topics().output, value.to_owned()).header(headers::TENANT, tenant);
        self.producer.send_record(&record).await.unwrap();
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
        self.producer.send_record(&record).await.unwrap();
    }

    pub fn start(&self) -> Running {
        self.start_with(Settings::default())
    }

    /// An indexer with settings of its own, as far as they are none of the test's.
    pub fn start_with(&self, mut own: Settings) -> Running {
        (own.lease_seconds, own.maintenance_seconds) = (3, 1);
        let host = Host::local().unwrap().for_service("indexer").unwrap();
        let config = Config {
            indexer: own,
            tenants: unslide_runtime::TenantDefaults::default(),
            symbolizer: unslide_indexer::SenderRules::default(),
            postgres: self.postgres.clone(),
            kafka: self.kafka.clone(),
            objects: self.objects.clone(),
            ..Config::default()
        };
        assert_eq!(config.validate(), []);
        RunningService::spawn(
            host.clone(),
            PROBES,
            unslide_indexer::run(config, IndexerFeatures::default(), host),
        )
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

    /// Lets nobody else at a table, until it is opened again.
    pub async fn close(&self, table: &str) -> PgConnection {
        let mut connection = self.connect().await;
        let lock = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut connection).await.unwrap();
        connection
    }

    /// Opens it again.
    pub async fn open(closed: PgConnection) {
        closed.close().await.unwrap();
    }

    /// Waits until every record that is in the topics now was read.
    pub async fn wait_until_caught_up(&self) {
        let TopicNames { output, ledger, dead_letter, .. } = self.topics();
        self.wait_until_read(&[output, ledger, dead_letter]).await;
    }

    /// Everything that the indexer keeps, as text.
    pub async fn dump(&self) -> String {
        let mut connection = self.connect().await;
        let mut dump = String::new();
        for table in [
            "report_keys",
            "reports",
            "report_bodies",
            "waits",
            "system_waits",
            "app_days",
            "app_hours",
            "app_devices",
            "wanted_images",
            "groups",
            "(SELECT group_id, day, sum(reports) FROM group_day_counts GROUP BY 1, 2)",
            "(SELECT group_id, hour, sum(reports) FROM group_hour_counts GROUP BY 1, 2)",
            "symbol_slots",
            "outbox",
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
        self.servers.stop(false).await;
    }
}
