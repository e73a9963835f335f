//! What the indexer is told at its start.

use serde::Deserialize;
use std::time::Duration;
use unslide_runtime::Problem;

/// The indexer's configuration. Each field is a section.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The indexer's own settings.
    pub indexer: Settings,
    /// Where reports are stored.
    pub postgres: unslide_store::Settings,
    /// Where reports come from.
    pub kafka: unslide_stream::Settings,
    /// Where the bodies of stored reports go.
    pub objects: unslide_artifacts::Settings,
}

/// The section `indexer`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What this process is called among the indexers; each needs another name. Empty: one that
    /// nobody else has is made up at the start.
    pub name: String,
    /// The most records of one transaction.
    pub batch_records: usize,
    /// The most bytes of one transaction's records; one record may be larger.
    pub batch_bytes: usize,
    /// How long a batch may wait to become full, in milliseconds.
    pub batch_wait_milliseconds: u64,
    /// How long partitions stay with an indexer that says nothing any more, in seconds.
    pub lease_seconds: u64,
    /// How many days reports are kept, of tenants without a limit of their own.
    pub keep_days: u32,
    /// How many days the ids of reports are remembered: longer than reports are kept, and longer
    /// than any topic holds them.
    pub remember_days: u32,
    /// How many days the index of dead letters goes back: as long as their topic keeps them.
    pub dead_letter_days: u32,
    /// How many days ahead tables are made.
    pub days_ahead: u32,
    /// The pause between two rounds of upkeep, in seconds.
    pub upkeep_seconds: u64,
    /// Whether bodies move into segments in object storage. Off while services of a version that
    /// cannot read them still run.
    pub segments: bool,
    /// How long a body stays in the database before it moves, in seconds.
    pub segment_after_seconds: u64,
    /// The bytes that a segment should have. What waits of one tenant and day moves at once when it
    /// is as much as this.
    pub segment_bytes: u64,
    /// A body of so many bytes, compressed, does not wait: the requests that carry it would be too
    /// large for their topic.
    pub segment_large_bytes: u64,
    /// How long the bytes of a deleted report may stay in a segment before it is written anew, in
    /// seconds.
    pub erase_seconds: u64,
    /// How long an object that nothing refers to stays, in seconds: longer than anybody who has read
    /// of it takes to read it.
    pub condemned_seconds: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            name: String::new(),
            batch_records: 500,
            batch_bytes: 16 << 20,
            batch_wait_milliseconds: 200,
            lease_seconds: 15,
            keep_days: 90,
            remember_days: 400,
            dead_letter_days: 30,
            days_ahead: 7,
            upkeep_seconds: 30,
            segments: true,
            segment_after_seconds: 3_600,
            segment_bytes: 64 << 20,
            segment_large_bytes: 1 << 20,
            erase_seconds: 43_200,
            condemned_seconds: 3_600,
        }
    }
}

impl Settings {
    /// How long a batch may wait to become full.
    #[must_use]
    pub fn batch_wait(&self) -> Duration {
        Duration::from_millis(self.batch_wait_milliseconds)
    }
}

impl Config {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let own = &self.indexer;
        let numbers = [
            ("batch_records", own.batch_records as u64, 1..=10_000),
            ("batch_bytes", own.batch_bytes as u64, 1 << 16..=256 << 20),
            ("batch_wait_milliseconds", own.batch_wait_milliseconds, 1..=5_000),
            ("lease_seconds", own.lease_seconds, 3..=600),
            ("keep_days", own.keep_days.into(), 1..=3_000),
            ("remember_days", own.remember_days.into(), 1..=3_650),
            ("dead_letter_days", own.dead_letter_days.into(), 1..=3_650),
            ("days_ahead", own.days_ahead.into(), 1..=60),
            ("upkeep_seconds", own.upkeep_seconds, 1..=3_600),
            ("segment_after_seconds", own.segment_after_seconds, 1..=604_800),
            ("segment_bytes", own.segment_bytes, 1 << 10..=1 << 30),
            ("segment_large_bytes", own.segment_large_bytes, 1 << 10..=1 << 30),
            ("erase_seconds", own.erase_seconds, 1..=2_592_000),
            ("condemned_seconds", own.condemned_seconds, 1..=604_800),
        ];
        for (key, value, range) in numbers {
            if !range.contains(&value) {
                let message = format!("must be between {} and {}", range.start(), range.end());
                problems.push(Problem::new(format!("indexer.{key}"), message));
            }
        }
        if own.remember_days <= own.keep_days {
            problems.push(Problem::new("indexer.remember_days", "must be more than indexer.keep_days"));
        }
        problems.extend(Problem::in_section("postgres", self.postgres.problems()));
        problems.extend(Problem::in_section("kafka", self.kafka.problems()));
        problems.extend(Problem::in_section("objects", self.objects.problems()));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_lack_servers_only_and_every_problem_is_named() {
        let keys = |config: &Config| config.validate().into_iter().map(|p| p.key).collect::<Vec<_>>();
        assert_eq!(keys(&Config::default()), ["postgres.url", "objects.bucket"]);
        let bad = Config {
            indexer: Settings { batch_records: 0, keep_days: 500, segment_bytes: 1, ..Settings::default() },
            postgres: unslide_store::Settings::with_url("postgres://u@h/d"),
            objects: unslide_artifacts::Settings { bucket: "unslide".into(), ..Default::default() },
            ..Config::default()
        };
        assert_eq!(keys(&bad), ["indexer.batch_records", "indexer.segment_bytes", "indexer.remember_days"]);
    }
}
