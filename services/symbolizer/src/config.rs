//! The settings of the symbolizer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use unslide_runtime::{ConfigProblem, TenantDefaults};
use unslide_stream::SignatureSettings;

/// Upper limit for `fetch_wait`: the time that the other lanes wait.
const LONGEST_FETCH_MILLISECONDS: u64 = 5_000;

/// The symbolizer's configuration. Each field is a section.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `symbolizer`, for this service alone.
    pub symbolizer: Settings,
    /// Limits of tenants that have none of their own.
    pub tenants: TenantDefaults,
    /// Kafka, with the topics of reports and enriched reports.
    pub kafka: unslide_stream::Settings,
    /// Object storage, which has the symcaches.
    pub objects: unslide_artifacts::Settings,
    /// Limits of the local cache of symcaches, beside `symbolizer.cache_size`.
    pub symcaches: unslide_artifacts::CacheLimits,
}

/// The section `symbolizer` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// The name of this worker's slot: the same over restarts, and no two workers' at the same time.
    /// The transactional ids and the group's member ids are made from it. When not set: the variable
    /// `UNSLIDE_WORKER`, else the host's name.
    #[serde(skip)]
    pub worker: String,
    /// The folder for symcaches. Safe to delete at any time.
    #[serde(skip)]
    pub cache_dir: PathBuf,
    /// Disk space for symcaches in `process.data_dir`.
    #[serde(rename = "cache_size", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub cache_bytes: u64,
    /// How long a batch waits for symcaches that are not here yet. If all its reports are of one tenant and lack symbols, and no
    /// other record waits, it waits at least 700 ms. Reports with symcaches that take longer go on by way of the retry tier of
    /// one second, while the downloads go on.
    #[serde(rename = "fetch_wait", with = "unslide_model::units::milliseconds")]
    #[schemars(with = "String")]
    pub fetch_milliseconds: u64,
    /// Keys that verify the gateways' signatures.
    pub signatures: SignatureSettings,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            worker: String::new(),
            cache_dir: PathBuf::new(),
            cache_bytes: 10 << 30,
            fetch_milliseconds: 200,
            signatures: SignatureSettings::default(),
        }
    }
}

impl Settings {
    /// Returns the worker's name, from the settings, the environment or the host.
    #[must_use]
    pub fn worker_name(&self) -> String {
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let named = [
            Some(self.worker.clone()),
            std::env::var("UNSLIDE_WORKER").ok(),
            std::env::var("HOSTNAME").ok(),
            host(),
        ];
        let name = named.into_iter().flatten().find(|name| !name.trim().is_empty());
        name.map_or_else(|| "worker".to_owned(), |name| name.trim().to_owned())
    }

    /// Returns the time that a batch of the live lane waits for symcaches.
    #[must_use]
    pub fn fetch_wait(&self) -> Duration {
        Duration::from_millis(self.fetch_milliseconds)
    }
}

impl Config {
    /// Returns every problem of the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        let own = &self.symbolizer;
        if own.cache_bytes < 1 << 20 {
            problems.push(ConfigProblem::new("symbolizer.cache_size", "must be at least 1MiB"));
        }
        // A report that still has to wait after that has used up a try; a rebalance waits for the batch.
        if !(10..=LONGEST_FETCH_MILLISECONDS).contains(&own.fetch_milliseconds) {
            problems.push(ConfigProblem::new("symbolizer.fetch_wait", "must be between 10ms and 5s"));
        }
        problems.extend(self.tenants.problems());
        problems.extend(ConfigProblem::in_section("symbolizer.signatures", own.signatures.problems()));
        problems.extend(ConfigProblem::in_section("objects", self.objects.problems()));
        problems.extend(ConfigProblem::in_section("symcaches", self.symcaches.problems()));
        problems.extend(ConfigProblem::in_section("kafka", self.kafka.problems()));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_lack_addresses_only_and_every_problem_is_named() {
        let keys = |config: &Config| config.validate().into_iter().map(|p| p.key).collect::<Vec<_>>();
        assert_eq!(keys(&Config::default()), ["objects.bucket", "kafka.bootstrap"]);
        let mut bad = Config::default();
        bad.objects.bucket = "unslide".to_owned();
        bad.symbolizer.fetch_milliseconds = 6_000;
        bad.symbolizer.signatures.required = true;
        bad.symcaches.download_bytes = 0;
        bad.kafka.bootstrap = String::new();
        let expected = [
            "symbolizer.fetch_wait",
            "symbolizer.signatures.keys",
            "symcaches.download_size",
            "kafka.bootstrap",
        ];
        assert_eq!(keys(&bad), expected);
    }

    #[test]
    fn a_worker_always_has_a_name() {
        let named = Settings { worker: "slot-3".to_owned(), ..Settings::default() };
        assert_eq!(named.worker_name(), "slot-3");
        assert!(!Settings::default().worker_name().is_empty());
    }
}
