//! The settings of the indexer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use unslide_history::HistorySettings;
use unslide_runtime::{ConfigProblem, TenantDefaults};
use unslide_store::retention::RetentionSettings;

/// The indexer's configuration. Each field is a section.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `indexer`, for this service alone.
    pub indexer: Settings,
    /// Limits of tenants that have none of their own.
    pub tenants: TenantDefaults,
    /// What of the symbolizer's section concerns events of features too.
    pub symbolizer: SenderRules,
    /// The database that stores the reports.
    pub postgres: unslide_store::Settings,
    /// Kafka, which has the enriched reports.
    pub kafka: unslide_stream::Settings,
    /// Object storage for the bodies of stored reports.
    pub objects: unslide_artifacts::Settings,
    /// ClickHouse, for the rows of old reports.
    pub history: HistorySettings,
}

/// The part of the section `symbolizer` that says who may send for which tenant: the indexer holds session
/// events to what symbolizers hold reports to.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SenderRules {
    /// Keys that verify the gateways' signatures.
    pub signatures: unslide_stream::SignatureSettings,
}

/// The section `indexer` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// How long reports are kept, of tenants without a limit of their own.
    #[serde(rename = "retention", with = "unslide_model::units::days")]
    #[schemars(with = "String")]
    pub keep_days: u32,
    /// How long the ids of reports are remembered: longer than reports are kept, and longer than any topic
    /// holds them.
    #[serde(rename = "remember", with = "unslide_model::units::days")]
    #[schemars(with = "String")]
    pub remember_days: u32,
    /// How long a body stays in the database before it moves to object storage.
    #[serde(rename = "segment_after", with = "unslide_model::units::seconds")]
    #[schemars(with = "String")]
    pub segment_after_seconds: u64,
    /// The most records of one transaction.
    #[serde(skip)]
    pub batch_records: usize,
    /// The most bytes of one transaction's records; one record may be larger.
    #[serde(skip)]
    pub batch_bytes: usize,
    /// How long a batch may wait to become full, from its first record, in milliseconds.
    #[serde(skip)]
    pub batch_wait_milliseconds: u64,
    /// How long partitions stay with an indexer that says nothing any more, in seconds.
    #[serde(skip)]
    pub lease_seconds: u64,
    /// The pause between two rounds of maintenance, in seconds.
    #[serde(skip)]
    pub maintenance_seconds: u64,
    /// The bytes that a segment should have. The waiting bodies of one tenant and day move at once when they
    /// reach this size.
    #[serde(skip)]
    pub segment_bytes: u64,
    /// A body of this many bytes, compressed, does not wait: the requests that carry it would be too
    /// large for their topic.
    #[serde(skip)]
    pub segment_large_bytes: u64,
    /// How long an object that nothing refers to stays, in seconds: longer than a
    /// reader that knows its key takes to read it.
    #[serde(skip)]
    pub condemned_seconds: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        let RetentionSettings { keep_days, remember_days } = RetentionSettings::default();
        Settings {
            keep_days,
            remember_days,
            segment_after_seconds: 3_600,
            batch_records: 1_000,
            batch_bytes: 32 << 20,
            batch_wait_milliseconds: 100,
            lease_seconds: 15,
            maintenance_seconds: 30,
            segment_bytes: 64 << 20,
            segment_large_bytes: 1 << 20,
            condemned_seconds: 3_600,
        }
    }
}

impl Settings {
    /// Returns the time that a batch may wait to become full.
    #[must_use]
    pub fn batch_wait(&self) -> Duration {
        Duration::from_millis(self.batch_wait_milliseconds)
    }
}

impl Config {
    /// Returns every problem of the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        let own = &self.indexer;
        let ranges = [("retention", own.keep_days, 1..=3_000), ("remember", own.remember_days, 1..=3_650)];
        for (key, value, range) in ranges {
            if !range.contains(&value) {
                let message = format!("must be between {}d and {}d", range.start(), range.end());
                problems.push(ConfigProblem::new(format!("indexer.{key}"), message));
            }
        }
        if !(1..=604_800).contains(&own.segment_after_seconds) {
            problems.push(ConfigProblem::new("indexer.segment_after", "must be between 1s and 7d"));
        }
        if own.remember_days <= own.keep_days {
            problems.push(ConfigProblem::new("indexer.remember", "must be more than indexer.retention"));
        }
        problems.extend(self.tenants.problems());
        let signatures = self.symbolizer.signatures.problems();
        problems.extend(ConfigProblem::in_section("symbolizer.signatures", signatures));
        problems.extend(ConfigProblem::in_section("postgres", self.postgres.problems()));
        problems.extend(ConfigProblem::in_section("kafka", self.kafka.problems()));
        problems.extend(ConfigProblem::in_section("objects", self.objects.problems()));
        problems.extend(ConfigProblem::in_section("history", self.history.problems()));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_lack_servers_only_and_every_problem_is_named() {
        let keys = |config: &Config| config.validate().into_iter().map(|p| p.key).collect::<Vec<_>>();
        assert_eq!(keys(&Config::default()), ["postgres.url", "kafka.bootstrap", "objects.bucket"]);
        let bad = Config {
            indexer: Settings { keep_days: 500, segment_after_seconds: 0, ..Settings::default() },
            tenants: TenantDefaults { symbol_bytes: 0, ..TenantDefaults::default() },
            symbolizer: SenderRules::default(),
            postgres: unslide_store::Settings::with_url("postgres://u@h/d"),
            objects: unslide_artifacts::Settings { bucket: "unslide".into(), ..Default::default() },
            history: HistorySettings::default(),
            kafka: unslide_stream::Settings::single_broker("127.0.0.1:9092"),
        };
        assert_eq!(keys(&bad), ["indexer.segment_after", "indexer.remember", "tenants.symbols_size"]);
    }
}
