//! Topics and a database of one test's own, and an indexer with health between them.

use std::ops::Deref;
use unslide_harness::service::RunningService;
use unslide_harness::{TestServers, acme};
use unslide_indexer::{Config, Settings};
use unslide_proto::headers;
use unslide_proto::topics::TopicNames;
use unslide_runtime::Host;
use unslide_stream::{OutRecord, Partitions, Producer};

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

impl World {
    pub async fn new() -> World {
        let servers = TestServers::start("health", |kafka| {
            kafka.partitions = Partitions { input: 1, output: 4, overflow: 1, internal: 1, tenant: 2 };
        })
        .await;
        servers.make_tenant(&acme()).await;
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

    pub fn start(&self) -> RunningService<unslide_indexer::Error> {
        let host = Host::local().unwrap().for_service("indexer").unwrap();
        let config = Config {
            indexer: Settings { lease_seconds: 3, maintenance_seconds: 1, ..Settings::default() },
            tenants: unslide_runtime::TenantDefaults::default(),
            symbolizer: unslide_indexer::SenderRules::default(),
            postgres: self.postgres.clone(),
            kafka: self.kafka.clone(),
            objects: self.objects.clone(),
            ..Config::default()
        };
        assert_eq!(config.validate(), []);
        let features = unslide_feature::for_indexer(&[unslide_health::feature()]);
        RunningService::spawn(host.clone(), PROBES, unslide_indexer::run(config, features, host))
    }

    /// Waits until every record that is in the topics of health now was read.
    pub async fn wait_until_caught_up(&self) {
        self.wait_until_read(&[self.topics().sessions, self.topics().metrics]).await;
    }

    /// Everything that health keeps of events, as text.
    pub async fn dump(&self) -> String {
        let mut dump = String::new();
        for table in crate::health::database::TABLES {
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
