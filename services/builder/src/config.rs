//! What the builder is told at its start.

use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use unslide_artifacts::archive;
use unslide_runtime::Problem;
use unslide_symbolicate::symcache::WRITES;

/// The builder's configuration. Each field is a section.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The builder's own settings.
    pub builder: Settings,
    /// Where jobs and the outbox are.
    pub postgres: unslide_store::Settings,
    /// Where uploads are read and symcaches are written.
    pub objects: unslide_artifacts::Settings,
    /// Where the outbox goes.
    pub kafka: unslide_stream::Settings,
}

/// The section `builder`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where uploads are unpacked.
    pub work_dir: PathBuf,
    /// Bytes that all jobs of this process together may have in `work_dir`; others wait. A job gets what
    /// its upload may be unpacked to, and gives back what it was not.
    pub work_bytes: u64,
    /// Uploads in work at once. Each builds one symcache at a time.
    pub uploads: usize,
    /// Bytes of memory that building one symcache may take, the object itself not counted. `uploads`
    /// and one more, for what is built anew, may do so at the same time.
    pub build_bytes: u64,
    /// Seconds that a job belongs to a builder that does not answer any more.
    pub lease_seconds: u64,
    /// Seconds that one job may take.
    pub job_seconds: u64,
    /// Seconds for which a job waits for object storage or the database to come back, or for room in
    /// the work folder, before it is given back to be tried again later.
    pub patience_seconds: u64,
    /// Stored reports that each builder asks for a second when symbols came late that they wait for.
    pub wake_per_second: u32,
    /// Stored reports that are asked for a second when somebody wants them symbolicated again.
    pub reprocess_per_second: u32,
    /// Seconds after which an upload whose bytes have not all come is given up, from its last part on
    /// where it comes in parts. More than the api lets an upload take.
    pub receiving_seconds: u64,
    /// Days for which the file of an upload that failed is kept, for whoever looks into it.
    pub failed_upload_days: u32,
    /// Seconds after which a deleted tenant is looked for a second time, to find what an upload that
    /// had begun before the deletion may have left. More than an upload and its building may take.
    pub erase_again_seconds: u64,
    /// Bytes of a tenant's stored symbols, where the tenant has no limit of its own: as
    /// `api.limits.symbol_bytes`.
    pub symbol_bytes: u64,
    /// Entries of one upload's archives.
    pub archive_entries: u64,
    /// Bytes of one upload, unpacked.
    pub archive_bytes: u64,
    /// Bytes of one file of an upload, unpacked.
    pub member_bytes: u64,
    /// Archives within one another.
    pub archive_depth: usize,
    /// Unpacked bytes for each byte of an upload.
    pub archive_ratio: u64,
    /// The versions of the symcache's format that are written. All that workers read have to be among
    /// them, so that after a change of the format there are two for a while.
    pub symcache_versions: Vec<u32>,
    /// Objects that one job builds anew after a change of the format. A builder that dies repeats so
    /// many at most.
    pub backfill_objects: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        let limits = archive::Limits::default();
        Settings {
            work_dir: std::env::temp_dir().join("unslide-builder"),
            work_bytes: 80 << 30,
            uploads: 2,
            build_bytes: unslide_symbolicate::object::Limits::default().max_memory_bytes,
            lease_seconds: 30,
            job_seconds: 3_600,
            patience_seconds: 900,
            wake_per_second: 1_000,
            reprocess_per_second: 200,
            receiving_seconds: 8 * 3_600,
            failed_upload_days: 30,
            erase_again_seconds: 8 * 3_600,
            symbol_bytes: 1 << 40,
            archive_entries: limits.entries,
            archive_bytes: limits.total_bytes,
            member_bytes: limits.member_bytes,
            archive_depth: limits.depth,
            archive_ratio: limits.ratio,
            symcache_versions: WRITES.to_vec(),
            backfill_objects: 20,
        }
    }
}

impl Settings {
    /// What an upload may cost.
    #[must_use]
    pub fn archive(&self) -> archive::Limits {
        archive::Limits {
            entries: self.archive_entries,
            total_bytes: self.archive_bytes,
            member_bytes: self.member_bytes,
            depth: self.archive_depth,
            ratio: self.archive_ratio,
            ..archive::Limits::default()
        }
    }

    /// How long a job belongs to a builder that does not answer any more.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }
}

impl Config {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let own = &self.builder;
        let numbers = [
            ("uploads", own.uploads as u64),
            ("build_bytes", own.build_bytes),
            ("job_seconds", own.job_seconds),
            ("wake_per_second", own.wake_per_second.into()),
            ("reprocess_per_second", own.reprocess_per_second.into()),
            ("receiving_seconds", own.receiving_seconds),
            ("failed_upload_days", own.failed_upload_days.into()),
            ("erase_again_seconds", own.erase_again_seconds),
            ("symbol_bytes", own.symbol_bytes),
            ("archive_entries", own.archive_entries),
            ("archive_bytes", own.archive_bytes),
            ("member_bytes", own.member_bytes),
            ("archive_depth", own.archive_depth as u64),
            ("archive_ratio", own.archive_ratio),
            ("backfill_objects", u64::from(own.backfill_objects)),
        ];
        let zero = numbers.iter().filter(|(_, value)| *value == 0);
        problems.extend(zero.map(|(name, _)| Problem::new(format!("builder.{name}"), "must be more than 0")));
        if own.work_bytes < own.archive_bytes {
            problems.push(Problem::new("builder.work_bytes", "must be at least builder.archive_bytes"));
        }
        if own.lease_seconds < 3 {
            problems.push(Problem::new("builder.lease_seconds", "must be at least 3"));
        }
        if own.work_dir.as_os_str().is_empty() {
            problems.push(Problem::new("builder.work_dir", "must name a folder"));
        }
        let versions = &own.symcache_versions;
        let twice = (1..versions.len()).any(|n| versions[..n].contains(&versions[n]));
        if versions.is_empty() || twice || !versions.iter().all(|version| WRITES.contains(version)) {
            let message = format!("must name some of {WRITES:?}, each once: what this build writes");
            problems.push(Problem::new("builder.symcache_versions", message));
        }
        problems.extend(Problem::in_section("postgres", self.postgres.problems()));
        problems.extend(Problem::in_section("objects", self.objects.problems()));
        problems.extend(Problem::in_section("kafka", self.kafka.problems()));
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
        config.builder.lease_seconds = 1;
        config.builder.work_bytes = config.builder.archive_bytes - 1;
        config.builder.symcache_versions = vec![WRITES[0] + 1];
        let keys: Vec<_> = config.validate().into_iter().map(|problem| problem.key).collect();
        let own =
            ["builder.uploads", "builder.work_bytes", "builder.lease_seconds", "builder.symcache_versions"];
        for key in own.into_iter().chain(["postgres.url", "objects.bucket"]) {
            assert!(keys.iter().any(|k| k == key), "{key} is not in {keys:?}");
        }
        for wrong in [vec![], vec![WRITES[0], WRITES[0]]] {
            config.builder.symcache_versions = wrong;
            assert!(config.validate().iter().any(|problem| problem.key == "builder.symcache_versions"));
        }
        assert_eq!(Settings::default().archive().entries, archive::Limits::default().entries);
    }
}
