//! How Kafka is reached and how much memory its clients may take.

use crate::error::StreamError;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use unslide_model::{Secret, is_local};
use unslide_proto::topics::TopicNames;

/// The `[kafka]` section of every service's configuration.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// Brokers, `host:port`, separated by commas.
    pub bootstrap: String,
    /// Put before every topic name, consumer group and transactional id, so that installations can
    /// share a cluster. Usually empty.
    pub topic_prefix: String,
    /// Encryption and authentication.
    pub security: Security,
    /// Further librdkafka options, passed without changes. Options that delivery depends on are refused.
    pub client: BTreeMap<String, String>,
    /// The largest input record, in bytes of key, headers and value.
    #[serde(rename = "max_record_size", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub max_record_bytes: usize,
    /// Replicas of each created topic.
    pub replication_factor: i32,
    /// `min.insync.replicas` of each created topic. 1 accepts topics without replicas, as on a
    /// developer's machine.
    pub min_insync_replicas: i32,
    /// Partitions of each created topic.
    pub partitions: Partitions,
    /// Tenants may have input and output topics of their own beside the shared ones:
    /// `crash.reports.<tenant>` and `crash.symbolicated.<tenant>`.
    pub tenant_topics: bool,
    /// How often services look for new partitions, and for new topics of tenants, in milliseconds.
    #[serde(skip)]
    pub topic_refresh_milliseconds: u64,
    /// Memory of the client's queues.
    #[serde(skip)]
    pub budget: ByteBudget,
}

/// How a client proves who it is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Security {
    /// Protocol of the brokers' listener: `plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`.
    pub protocol: Protocol,
    /// The SASL mechanism, such as `SCRAM-SHA-512` or `PLAIN`.
    pub mechanism: String,
    /// User name for SASL; empty without SASL.
    pub username: String,
    /// Password for SASL; empty without SASL.
    #[schemars(with = "String")]
    pub password: Secret,
    /// Certificates of the authorities that sign the brokers' certificates (PEM); the system's when
    /// not set.
    pub ca: Option<PathBuf>,
    /// File of the client's certificate (PEM), for mutual TLS.
    pub certificate: Option<PathBuf>,
    /// The client's private key (PEM).
    pub key: Option<PathBuf>,
    /// Password of the client's private key; empty if the key has none.
    #[schemars(with = "String")]
    pub key_password: Secret,
}

/// Protocol of a broker's listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// No encryption and no authentication.
    #[default]
    Plaintext,
    /// TLS; authenticated if the client has a certificate.
    Ssl,
    /// A password (SASL), but no encryption.
    SaslPlaintext,
    /// A password (SASL) over TLS.
    SaslSsl,
}

/// Partitions of the topics that `migrate` creates.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Partitions {
    /// Partitions of `crash.reports`, `crash.sessions` and `crash.metrics`.
    pub input: i32,
    /// Partitions of the topic `crash.symbolicated`.
    pub output: i32,
    /// Partitions of the topics `unslide.overflow` and `unslide.ingest-overflow`.
    pub overflow: i32,
    /// `crash.alerts`, `crash.stored`, each retry tier, `unslide.resymbolicate`, `unslide.dead-letter` and `unslide.ledger`.
    pub internal: i32,
    /// Each input and each output topic of one tenant.
    #[serde(skip)]
    pub tenant: i32,
}

/// Bytes that one client's queues may hold.
#[derive(Clone, Copy, Debug)]
pub struct ByteBudget {
    /// Fetched and not yet polled, for one consumer. Every lane of a symbolizer has one, and so has
    /// every other reader.
    pub fetched: usize,
    /// Produced and not yet acknowledged, for one client. Every lane of a symbolizer has one; a producer
    /// outside of transactions has another for large records.
    pub produced: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            bootstrap: String::new(),
            topic_prefix: String::new(),
            security: Security::default(),
            client: BTreeMap::new(),
            max_record_bytes: 20 << 20,
            replication_factor: 3,
            min_insync_replicas: 2,
            partitions: Partitions::default(),
            tenant_topics: false,
            topic_refresh_milliseconds: 5_000,
            budget: ByteBudget::default(),
        }
    }
}

impl Default for Partitions {
    fn default() -> Partitions {
        Partitions { input: 12, output: 12, overflow: 12, internal: 6, tenant: 3 }
    }
}

impl Default for ByteBudget {
    fn default() -> ByteBudget {
        ByteBudget { fetched: 16 << 20, produced: 128 << 20 }
    }
}

/// Room for headers and key on a copied record.
pub(crate) const COPY_ROOM: usize = 64 << 10;

/// Options that exactly-once delivery depends on: never taken from `client`.
const PROTECTED: [&str; 16] = [
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "isolation.level",
    "max.poll.interval.ms",
    "message.timeout.ms",
    "partition.assignment.strategy",
    "transaction.timeout.ms",
    "transactional.id",
];

/// librdkafka's second names of options that are set here (its CONFIGURATION.md), and the names by which
/// they are set. Of two names of one option, whichever librdkafka reads last would count.
const ALIASES: [(&str, &str); 8] = [
    ("auto.commit.enable", "enable.auto.commit"),
    ("compression.codec", "compression.type"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("request.required.acks", "acks"),
    ("sasl.mechanisms", "sasl.mechanism"),
];

/// Returns the name by which an option is set here.
fn own_name(option: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == option).map_or(option, |(_, name)| name)
}

impl Settings {
    /// Settings for a single broker on a developer's machine: no replicas.
    #[must_use]
    pub fn single_broker(bootstrap: impl Into<String>) -> Settings {
        Settings {
            bootstrap: bootstrap.into(),
            replication_factor: 1,
            min_insync_replicas: 1,
            partitions: Partitions { input: 4, output: 4, overflow: 4, internal: 1, tenant: 2 },
            ..Settings::default()
        }
    }

    /// Returns the names of this installation's topics.
    #[must_use]
    pub fn topic_names(&self) -> TopicNames {
        TopicNames::with_prefix(&self.topic_prefix)
    }

    /// Returns the login, for messages.
    #[must_use]
    pub fn describe_login(&self) -> String {
        match self.security.username.as_str() {
            "" => "the principal of this login".to_owned(),
            name => format!("User:{name}"),
        }
    }

    /// Returns the largest record that dead-letter, retry and overflow take, in bytes.
    #[must_use]
    pub fn max_copy_bytes(&self) -> usize {
        self.max_record_bytes + COPY_ROOM
    }

    /// Returns the largest enriched record, in bytes of key, headers and value.
    #[must_use]
    pub fn max_output_bytes(&self) -> usize {
        self.max_record_bytes * 4
    }

    /// Returns everything that is wrong with these settings: field and reason.
    #[must_use]
    pub fn problems(&self) -> Vec<(String, String)> {
        let parts = |sentence: String| match sentence.split_once(": ") {
            Some((field, reason)) => (field.to_owned(), reason.to_owned()),
            None => (String::new(), sentence),
        };
        self.list_problems().into_iter().map(parts).collect()
    }

    /// Returns the field that is unsafe outside of a private network, and the reason.
    #[must_use]
    pub fn find_insecure(&self) -> Option<(&'static str, String)> {
        let local = |broker: &str| is_local(broker.rsplit_once(':').map_or(broker, |(host, _)| host));
        let plain = matches!(self.security.protocol, Protocol::Plaintext | Protocol::SaslPlaintext);
        let reason =
            "sends reports, and passwords if there are any, unencrypted to another host: use ssl or sasl_ssl";
        let elsewhere = !self.bootstrap.split(',').map(str::trim).all(local);
        (plain && elsewhere).then(|| ("security.protocol", reason.to_owned()))
    }

    /// Returns everything that is wrong, each as one sentence that begins with the field.
    fn list_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.bootstrap.trim().is_empty() {
            problems.push("bootstrap: is not set".to_owned());
        }
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if self.topic_prefix.len() > 100 || !self.topic_prefix.bytes().all(legal) {
            problems
                .push("topic_prefix: at most 100 letters, digits, dots, dashes and underscores".to_owned());
        }
        for key in self.client.keys() {
            if PROTECTED.contains(&own_name(key)) {
                problems.push(format!("client.\"{key}\": delivery depends on this option, it cannot be set"));
            }
        }
        // The output topic takes four times as much; brokers take requests of up to 100 MiB.
        if !(64 << 10..=24 << 20).contains(&self.max_record_bytes) {
            problems.push("max_record_size: between 64KiB and 24MiB".to_owned());
        }
        if self.replication_factor < 1 || self.min_insync_replicas < 1 {
            problems.push("replication_factor, min_insync_replicas: at least 1".to_owned());
        } else if self.min_insync_replicas > self.replication_factor {
            problems.push("min_insync_replicas: more than replication_factor".to_owned());
        } else if self.min_insync_replicas == 1 && self.replication_factor > 1 {
            problems.push("min_insync_replicas: at least 2 if topics have replicas".to_owned());
        }
        let p = self.partitions;
        if [p.input, p.output, p.overflow, p.internal].iter().any(|n| *n < 1) {
            problems.push("partitions: at least 1 each".to_owned());
        }
        let sasl = matches!(self.security.protocol, Protocol::SaslPlaintext | Protocol::SaslSsl);
        if sasl && self.security.mechanism.is_empty() {
            problems.push("security.mechanism: needed with a SASL protocol".to_owned());
        }
        if let Err(e) = self.base_config().create_native_config() {
            problems.push(format!("client: {e}"));
        }
        problems
    }

    /// Returns the options that all clients of this installation share.
    pub(crate) fn base_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Warning);
        // Name of the client for the brokers' quotas and logs.
        config.set("client.id", "unslide");
        for (key, value) in &self.client {
            let key = own_name(key);
            if !PROTECTED.contains(&key) {
                config.set(key, value);
            }
        }
        config.set("bootstrap.servers", &self.bootstrap);
        let s = &self.security;
        config.set(
            "security.protocol",
            match s.protocol {
                Protocol::Plaintext => "plaintext",
                Protocol::Ssl => "ssl",
                Protocol::SaslPlaintext => "sasl_plaintext",
                Protocol::SaslSsl => "sasl_ssl",
            },
        );
        let texts = [
            ("sasl.mechanism", s.mechanism.as_str()),
            ("sasl.username", s.username.as_str()),
            ("sasl.password", s.password.reveal()),
            ("ssl.key.password", s.key_password.reveal()),
        ];
        for (key, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
            config.set(key, value);
        }
        let files = [
            ("ssl.ca.location", &s.ca),
            ("ssl.certificate.location", &s.certificate),
            ("ssl.key.location", &s.key),
        ];
        for (key, file) in files {
            if let Some(file) = file {
                config.set(key, file.to_string_lossy());
            }
        }
        config
    }

    /// Returns the options of a consumer that stops fetching when its queue holds the budget. The bytes that
    /// each broker has sent by then come on top: a sixteenth of the budget, or one record that is larger.
    /// They are decompressed as a whole, by LZ4 to at most 255 times as much.
    pub(crate) fn consumer_config(&self) -> ClientConfig {
        let fetched = self.budget.fetched;
        // The client takes no less than this.
        let response = (fetched / 16).max(1_000_000);
        let mut config = self.base_config();
        config
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("isolation.level", "read_committed")
            .set("queued.max.messages.kbytes", (fetched >> 10).max(1).to_string())
            .set("queued.min.messages", "1000")
            .set("fetch.max.bytes", response.to_string())
            .set("max.partition.fetch.bytes", (fetched / 16).max(256 << 10).to_string())
            .set("receive.message.max.bytes", (self.max_output_bytes() + fetched + (1 << 20)).to_string())
            // A full queue is looked at again soon: the default, a second, lets a busy consumer idle.
            .set("fetch.queue.backoff.ms", "5")
            // Records are answered at once. A resumed partition waits for the answer that the others wait
            // for, and each answer wakes the client, also if no record ever comes: a consumer that resumes
            // none sets more.
            .set("fetch.wait.max.ms", "100")
            .set("fetch.error.backoff.ms", "100")
            .set("reconnect.backoff.max.ms", "2000");
        config
    }

    /// Returns the options of a producer that keeps order, writes no record twice, and waits for all in-sync
    /// replicas.
    pub(crate) fn producer_config(&self) -> ClientConfig {
        let mut config = self.base_config();
        // It takes about a third of a symbolizer's CPU time: an operator may choose another.
        if config.get("compression.type").is_none() {
            config.set("compression.type", "lz4");
        }
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "2")
            // The brokers' limits apply to compressed records, so a record from a broker may be larger than
            // any of them, and its dead letter has to be written all the same.
            .set("message.max.bytes", "1000000000")
            .set("queue.buffering.max.kbytes", (self.budget.produced >> 10).to_string())
            .set("reconnect.backoff.max.ms", "2000");
        config
    }

    /// Returns an error with every problem at once if the settings are wrong.
    pub(crate) fn require_valid(&self) -> Result<&Settings, StreamError> {
        let problems = self.list_problems();
        if problems.is_empty() { Ok(self) } else { Err(StreamError::Settings(problems.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_lack_brokers_only_and_every_problem_is_named() {
        assert_eq!(Settings::default().list_problems(), ["bootstrap: is not set"]);
        assert_eq!(Settings::single_broker("localhost:1").list_problems(), Vec::<String>::new());
        let wrong = Settings {
            bootstrap: " ".into(),
            topic_prefix: "a/b".into(),
            client: [("isolation.level", "read_uncommitted"), ("no.such.option", "1")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            max_record_bytes: 1,
            ..Settings::default()
        };
        let text = wrong.list_problems().join("\n");
        let keys = ["bootstrap", "topic_prefix", "isolation.level", "no.such.option", "max_record_size"];
        for key in keys {
            assert!(text.contains(key), "{key} is not in {text}");
        }
    }

    #[test]
    fn a_protected_option_is_refused_under_each_of_its_names_and_not_passed_on() {
        let aliases = ALIASES.iter().filter(|(_, name)| PROTECTED.contains(name)).map(|(alias, _)| alias);
        let refused: Vec<&str> = PROTECTED.iter().chain(aliases).copied().collect();
        assert!(refused.contains(&"delivery.timeout.ms") && refused.contains(&"auto.commit.enable"));
        for key in refused {
            let client = [(key.to_owned(), "1".to_owned())].into();
            let settings = Settings { client, ..Settings::default() };
            assert!(settings.list_problems().iter().any(|s| s.contains(key)), "{key} is taken");
            assert!(settings.base_config().get(key).is_none_or(|value| value != "1"), "{key} is passed on");
        }
    }

    #[test]
    fn another_name_of_an_option_does_not_override_what_is_set_here() {
        let mut settings = Settings::default();
        for (alias, _) in ALIASES {
            settings.client.insert(alias.to_owned(), "7".to_owned());
        }
        let (producer, consumer) = (settings.producer_config(), settings.consumer_config());
        for (alias, _) in ALIASES {
            assert_eq!((producer.get(alias), consumer.get(alias)), (None, None), "{alias}");
        }
        assert_eq!(producer.get("linger.ms"), Some("2"));
        assert_ne!(consumer.get("max.partition.fetch.bytes"), Some("7"));
    }

    #[test]
    fn an_operator_may_choose_the_compression_under_each_of_its_names() {
        assert_eq!(Settings::default().producer_config().get("compression.type"), Some("lz4"));
        for name in ["compression.type", "compression.codec"] {
            let client = [(name.to_owned(), "zstd".to_owned())].into();
            let settings = Settings { client, ..Settings::default() };
            assert_eq!(settings.producer_config().get("compression.type"), Some("zstd"), "{name}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let mut settings = Settings::default();
        settings.security.password = Secret::new("hunter2");
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
