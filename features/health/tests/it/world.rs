//! Topics and a database of one test's own, and an indexer with health between them.

use std::ops::Deref;
use std::time::Duration;
use tokio::task::JoinHandle;
use unslide_harness::TestServers;
use unslide_indexer::{Config, Settings};
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_proto::topics::TopicNames;
use unslide_runtime::Host;
use unslide_stream::{OutRecord, Partitions, Producer};

/// How long a test waits for the indexer.
const INDEXER_TIMEOUT: Duration = Duration::from_secs(60);
/// Probes of an indexer with health: two servers, and five kinds of topics.
const PROBES: usize = 7;

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

/// An indexer that runs.
pub struct Running {
    host: Host,
    task: JoinHandle<Result<(), unslide_indexer::Error>>,
}

impl World {
    pub async fn new() -> World {
        let servers = TestServers::start("health", |kafka| {
            kafka.partitions = Partitions { input: 1, output: 4, overflow: 1, internal: 1, tenant: 2 };
        })
        .await;
        servers.make_tenant(&TenantId::new("acme").unwrap()).await;
        World { producer: Producer::new(&servers.kafka).unwrap(), servers }
    }

    pub fn topics(&self) -> TopicNames {
        self.kafka.topic_names()
    }

    /// Sends a session event, as the api or a gateway does.
    pub async fn send_session(&self, tenant: &'static str, value: &str) {
        let record =
            OutRecord::for_topic(self.topics().sessions, value.to_owned()).header(headers::TENANT, tenant);
        self.producer.send_record(&record).await.unwrap();
    }

    /// Sends a metric payload.
    pub async fn send_metrics(&self, tenant: &'static str, value: &str) {
        let record =
            OutRecord::for_topic(self.topics().metrics, value.to_owned()).header(headers::TENANT, tenant);
        self.producer.send_record(&record).await.unwrap();
    }

    pub fn start(&self) -> Running {
        let host = Host::local().unwrap().for_service("indexer").unwrap();
        let config = Config {
            indexer: Settings { lease_seconds: 3, maintenance_seconds: 1, ..Settings::default() },
            tenants: unslide_runtime::TenantDefaults::default(),
            symbolizer: unslide_indexer::SenderRules::default(),
            postgres: self.postgres.clone(),
            kafka: self.kafka.clone(),
            objects: self.objects.clone(),
        };
        assert_eq!(config.validate(), []);
        let features = unslide_feature::for_indexer(&[unslide_health::feature()]);
        let task = tokio::spawn(unslide_indexer::run(config, features, host.clone()));
        Running { host, task }
    }

    /// Waits until a query gives a number.
    pub async fn until(&self, query: &str, wanted: i64) {
        let end = tokio::time::Instant::now() + INDEXER_TIMEOUT;
        loop {
            let found = self.number(query).await;
            if found == wanted {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{query}: {found} and not {wanted}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until every record that is in the topics of health now was read.
    pub async fn until_caught_up(&self) {
        for topic in [self.topics().sessions, self.topics().metrics] {
            let facts = unslide_stream::topic_facts(&self.kafka, &topic).await.unwrap();
            for held in facts.partitions {
                let query = format!(
                    "SELECT coalesce(max(next_offset), 0) FROM positions WHERE topic = '{topic}' AND partition = {}",
                    held.partition
                );
                self.until(&query, held.end).await;
            }
        }
    }

    /// Everything that health keeps of events, as text.
    pub async fn dump(&self) -> String {
        let mut dump = String::new();
        for table in crate::database::TABLES {
            let rows =
                format!("SELECT coalesce(string_agg(t::text, '; ' ORDER BY t::text), '') FROM {table} t");
            dump.push_str(&format!("{table} {}\n", self.text(&rows).await));
        }
        dump
    }

    /// Leaves nothing behind.
    pub async fn end(self) {
        self.servers.stop(false).await;
    }
}

impl Running {
    pub async fn stop(self) {
        self.host.shutdown.begin();
        tokio::time::timeout(INDEXER_TIMEOUT, self.task).await.expect("it drains").unwrap().unwrap();
    }

    /// A counter's value, summed over its labels.
    fn counter(&self, name: &str) -> u64 {
        let page = self.host.process_metrics().render_page().unwrap();
        let lines = page
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ',', ' '])));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Waits until a counter has this value: it counts what was committed before.
    pub async fn until_counter(&self, name: &str, wanted: u64) {
        let end = tokio::time::Instant::now() + INDEXER_TIMEOUT;
        loop {
            let found = self.counter(name);
            if found == wanted {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{name}: {found} and not {wanted}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn until_ready(&self) {
        let end = tokio::time::Instant::now() + INDEXER_TIMEOUT;
        loop {
            let answer = self.host.health.check_readiness().await;
            if answer.ready && answer.probes.len() == PROBES {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
