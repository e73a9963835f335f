//! What the symbolizer is told at its start.

use crate::breaker::Limits;
use crate::signatures;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use unslide_runtime::Problem;
use unslide_stream::BatchLimits;

/// The symbolizer's configuration. Each field is a section.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The symbolizer's own settings.
    pub symbolizer: Settings,
    /// Where reports come from and go to.
    pub kafka: unslide_stream::Settings,
    /// Where symcaches are.
    pub objects: unslide_artifacts::Settings,
    /// What the symcaches on this machine may take, beside `symbolizer.cache_bytes`.
    pub symcaches: unslide_artifacts::CacheLimits,
}

/// The section `symbolizer`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The name of this worker's slot: the same over restarts, and no two workers' at the same time.
    /// The transactional ids and the group's member ids are made from it. When not set: the variable
    /// `UNSLIDE_WORKER`, else the host's name.
    pub worker: String,
    /// The folder for symcaches. Safe to delete at any time.
    pub cache_dir: PathBuf,
    /// Bytes that symcaches may take there.
    pub cache_bytes: u64,
    /// Records in one transaction.
    pub batch_records: usize,
    /// Bytes of records in one transaction. About four times as much may be in memory.
    pub batch_bytes: usize,
    /// How long a record waits for company, in milliseconds.
    pub batch_wait_milliseconds: u64,
    /// How long a batch waits for symcaches that are not here yet, in milliseconds. Reports whose
    /// symcaches take longer go on by way of the shortest retry tier, while the downloads go on.
    pub fetch_milliseconds: u64,
    /// The same on the retry and resymbolicate lanes, where a report that still has to wait has used
    /// up a try.
    pub cycle_milliseconds: u64,
    /// When failures to fetch are taken for a failure of object storage as a whole.
    pub breaker: BreakerSettings,
    /// Reports a second, over all workers, of a tenant that has no limit of its own; what comes
    /// faster waits in the overflow topic. As `api.limits.reports_per_second`. 0: no limit.
    pub tenant_reports_per_second: u32,
    /// Records a second, of each partition of the overflow topic, that are not due and are copied behind
    /// the others there, where those would wait for longer than ten seconds. 0: none, the others wait.
    pub overflow_copies_per_second: u32,
    /// How much of its rate a tenant that was quiet may use at once, in seconds.
    pub tenant_burst_seconds: u64,
    /// The gateways' keys.
    pub signatures: signatures::Settings,
    /// How deep containers of a report may lie in one another.
    pub report_depth: usize,
}

/// The section `symbolizer.breaker`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSettings {
    /// So many distinct debug ids have to fail, and more than succeed.
    pub debug_ids: usize,
    /// In so many seconds.
    pub window_seconds: u64,
    /// For so many seconds nothing is fetched then, and the lanes that want something pause.
    pub open_seconds: u64,
}

impl Default for BreakerSettings {
    fn default() -> BreakerSettings {
        BreakerSettings { debug_ids: 10, window_seconds: 30, open_seconds: 15 }
    }
}

impl BreakerSettings {
    /// The breaker's limits.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            debug_ids: self.debug_ids,
            window: Duration::from_secs(self.window_seconds),
            open: Duration::from_secs(self.open_seconds),
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            worker: String::new(),
            cache_dir: std::env::temp_dir().join("unslide-symcaches"),
            cache_bytes: 10 << 30,
            batch_records: 200,
            batch_bytes: 8 << 20,
            batch_wait_milliseconds: 20,
            fetch_milliseconds: 200,
            cycle_milliseconds: 5_000,
            breaker: BreakerSettings::default(),
            tenant_reports_per_second: 1_000,
            overflow_copies_per_second: 500,
            tenant_burst_seconds: 2,
            signatures: signatures::Settings::default(),
            report_depth: 256,
        }
    }
}

impl Settings {
    /// The worker's name, from the settings, the environment or the host.
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

    /// When a batch is full.
    #[must_use]
    pub fn batch(&self) -> BatchLimits {
        BatchLimits {
            records: self.batch_records,
            bytes: self.batch_bytes,
            wait: Duration::from_millis(self.batch_wait_milliseconds),
        }
    }

    /// How long a batch of the live lane waits for symcaches.
    #[must_use]
    pub fn fetch(&self) -> Duration {
        Duration::from_millis(self.fetch_milliseconds)
    }

    /// How long a batch of another lane does.
    #[must_use]
    pub fn cycle(&self) -> Duration {
        Duration::from_millis(self.cycle_milliseconds)
    }
}

impl Config {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let own = &self.symbolizer;
        let numbers = [
            ("cache_bytes", own.cache_bytes, 1 << 20..=u64::MAX),
            ("batch_records", own.batch_records as u64, 1..=10_000),
            ("batch_bytes", own.batch_bytes as u64, 1 << 16..=256 << 20),
            ("batch_wait_milliseconds", own.batch_wait_milliseconds, 1..=5_000),
            // The lane polls meanwhile, but a rebalance waits for the batch.
            ("cycle_milliseconds", own.cycle_milliseconds, 100..=20_000),
            ("fetch_milliseconds", own.fetch_milliseconds, 10..=own.cycle_milliseconds),
            ("breaker.debug_ids", own.breaker.debug_ids as u64, 2..=1_000),
            ("breaker.window_seconds", own.breaker.window_seconds, 1..=3_600),
            ("breaker.open_seconds", own.breaker.open_seconds, 1..=3_600),
            ("tenant_burst_seconds", own.tenant_burst_seconds, 1..=3_600),
            ("report_depth", own.report_depth as u64, 16..=1_024),
        ];
        for (key, value, range) in numbers {
            if !range.contains(&value) {
                let message = format!("must be between {} and {}", range.start(), range.end());
                problems.push(Problem::new(format!("symbolizer.{key}"), message));
            }
        }
        if own.cache_dir.as_os_str().is_empty() {
            problems.push(Problem::new("symbolizer.cache_dir", "must name a folder"));
        }
        problems.extend(Problem::in_section("symbolizer.signatures", own.signatures.problems()));
        problems.extend(Problem::in_section("objects", self.objects.problems()));
        problems.extend(Problem::in_section("symcaches", self.symcaches.problems()));
        problems.extend(Problem::in_section("kafka", self.kafka.problems()));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_lack_a_bucket_only_and_every_problem_is_named() {
        let keys = |config: &Config| config.validate().into_iter().map(|p| p.key).collect::<Vec<_>>();
        assert_eq!(keys(&Config::default()), ["objects.bucket"]);
        let mut bad = Config::default();
        bad.objects.bucket = "unslide".to_owned();
        bad.symbolizer.batch_records = 0;
        bad.symbolizer.cache_dir = PathBuf::new();
        bad.symbolizer.fetch_milliseconds = 6_000;
        bad.symbolizer.breaker.debug_ids = 1;
        bad.symbolizer.signatures.required = true;
        bad.symcaches.mapped = 0;
        bad.kafka.bootstrap = String::new();
        let expected = [
            "symbolizer.batch_records",
            "symbolizer.fetch_milliseconds",
            "symbolizer.breaker.debug_ids",
            "symbolizer.cache_dir",
            "symbolizer.signatures.keys",
            "symcaches.mapped",
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
