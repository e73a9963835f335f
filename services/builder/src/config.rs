//! The builder's configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use unslide_archive::UnpackLimits;
use unslide_history::HistorySettings;
use unslide_runtime::{ConfigProblem, TenantDefaults};
use unslide_symbolicate::symcache::WRITTEN_SYMCACHE_VERSIONS;

/// Number of concurrent jobs that rebuild objects.
pub(crate) const CONCURRENT_BACKFILLS: usize = 1;

/// The builder's configuration. Each field is a section.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `builder`, for this service alone.
    pub builder: Settings,
    /// Limits of tenants that have none of their own.
    pub tenants: TenantDefaults,
    /// The database with the jobs and the outbox.
    pub postgres: unslide_store::Settings,
    /// Object storage, with uploads and symcaches.
    pub objects: unslide_artifacts::Settings,
    /// ClickHouse, with the rows of old reports.
    pub history: HistorySettings,
    /// Kafka, which gets the outbox's records.
    pub kafka: unslide_stream::Settings,
}

/// The section `builder` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// Folder in which uploads are unpacked.
    #[serde(skip)]
    pub work_dir: PathBuf,
    /// Disk space in `process.data_dir` for all jobs of this process together; others wait. Each running job reserves
    /// 2 × (upload + unpacked limit) of it, and gives back what it does not need. An eighth is for the extra job of
    /// `uploads`.
    #[serde(rename = "work_size", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub work_bytes: u64,
    /// Uploads in flight at once. Each builds one symcache at a time. If all are taken and a tenant without an upload or
    /// a feature's job under way waits, one more runs, and one of the tenant with the most is stopped for at most ten minutes.
    pub uploads: usize,
    /// Memory of the child process that unpacks an upload or builds one symcache, without mapped files. `uploads` and four more
    /// may run at the same time: those for rebuilds, for features and for the extra upload. A child that builds a large object
    /// gets 1.5 times the object's size, up to what all of them have together, and waits for it.
    #[serde(rename = "build_memory", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub build_bytes: u64,
    /// CPU time of the child process that unpacks an upload or builds one symcache. The time for which it is stopped does
    /// not count.
    #[serde(rename = "build_cpu", with = "unslide_model::units::seconds")]
    #[schemars(with = "String")]
    pub build_seconds: u64,
    /// Largest size of one upload's files after it is unpacked.
    #[serde(rename = "archive_size", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub archive_bytes: u64,
    /// Seconds that a job belongs to a builder that does not answer any more.
    #[serde(skip)]
    pub lease_seconds: u64,
    /// Seconds for which a job waits for object storage or the database to come back, or for room in
    /// the work folder, before it is given back to be tried again later.
    #[serde(skip)]
    pub patience_seconds: u64,
    /// Stored reports that each builder asks for a second when symbols came late that they wait for.
    #[serde(skip)]
    pub wake_per_second: u32,
    /// Seconds after which an incomplete upload is given up. They count from its last part if it is sent in
    /// parts. Longer than the api lets an upload take.
    #[serde(skip)]
    pub receiving_seconds: u64,
    /// Seconds after which a deleted tenant is looked for a second time, to find what an upload that
    /// had begun before the deletion may have left. More than an upload and its building may take.
    #[serde(skip)]
    pub erase_again_seconds: u64,
    /// The versions of the symcache's format that are written. All that workers read have to be among
    /// them, so that after a change of the format there are two for a while.
    #[serde(skip)]
    pub symcache_versions: Vec<u32>,
    /// Objects that one job rebuilds after a change of the format. A builder that dies repeats at most this
    /// number.
    #[serde(skip)]
    pub backfill_objects: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            work_dir: PathBuf::new(),
            work_bytes: 80 << 30,
            uploads: 2,
            build_bytes: 1 << 30,
            build_seconds: 600,
            archive_bytes: UnpackLimits::default().total_bytes,
            lease_seconds: 30,
            patience_seconds: 900,
            wake_per_second: 1_000,
            receiving_seconds: 8 * 3_600,
            erase_again_seconds: 8 * 3_600,
            symcache_versions: WRITTEN_SYMCACHE_VERSIONS.to_vec(),
            backfill_objects: 20,
        }
    }
}

impl Settings {
    /// Returns the limits for unpacking an upload.
    #[must_use]
    pub fn unpack_limits(&self) -> UnpackLimits {
        UnpackLimits { total_bytes: self.archive_bytes, ..UnpackLimits::default() }
    }

    /// Returns how long a job belongs to a builder that does not answer any more.
    #[must_use]
    pub fn lease_duration(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }
}

impl Config {
    /// Returns every problem of the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        let own = &self.builder;
        let numbers = [
            ("uploads", own.uploads as u64),
            ("build_memory", own.build_bytes),
            ("build_cpu", own.build_seconds),
            ("archive_size", own.archive_bytes),
        ];
        let zero = numbers.iter().filter(|(_, value)| *value == 0);
        problems.extend(
            zero.map(|(name, _)| ConfigProblem::new(format!("builder.{name}"), "must be more than 0")),
        );
        if own.work_bytes < own.archive_bytes {
            problems.push(ConfigProblem::new("builder.work_size", "must be at least builder.archive_size"));
        }
        problems.extend(self.tenants.problems());
        problems.extend(ConfigProblem::in_section("postgres", self.postgres.problems()));
        problems.extend(ConfigProblem::in_section("objects", self.objects.problems()));
        problems.extend(ConfigProblem::in_section("history", self.history.problems()));
        problems.extend(ConfigProblem::in_section("kafka", self.kafka.problems()));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named() {
        let mut config = Config::default();
        config.builder.uploads = 0;
        config.builder.work_bytes = config.builder.archive_bytes - 1;
        let keys: Vec<_> = config.validate().into_iter().map(|problem| problem.key).collect();
        let expected =
            ["builder.uploads", "builder.work_size", "postgres.url", "objects.bucket", "kafka.bootstrap"];
        assert_eq!(keys, expected);
    }
}
