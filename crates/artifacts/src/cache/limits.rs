//! What the cache may take.

use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use unslide_symbolicate::symcache;

/// Bounds of the cache, which services read from their section `symcaches`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheLimits {
    /// Per cent of the bytes that one tenant keeps when others want room.
    pub tenant_share: u8,
    /// Per cent of the bytes that the system's symcaches keep when tenants want room.
    pub system_share: u8,
    /// Per cent of the bytes, of the whole and of each share, for symcaches that were used only
    /// once: new ones have that much room to be used again, and push nothing else out.
    pub probation_share: u8,
    /// Files. Where this is reached before the bytes are, each file counts as its part of them.
    pub files: u64,
    /// Symcaches that are mapped into memory. The others stay on disk and are verified and mapped
    /// again when they are used. Linux allows a process some 65,000 maps.
    pub mapped: usize,
    /// Remembered "there is none".
    pub missing: usize,
    /// Seconds that "there is none" is remembered at most.
    pub missing_seconds: u64,
    /// Bytes of the largest symcache that is fetched.
    pub largest_bytes: u64,
    /// Downloads at the same time.
    pub downloads: usize,
    /// Bytes of what is being downloaded, on disk beside what is kept. A larger symcache is
    /// downloaded alone.
    pub download_bytes: u64,
    /// Seconds that object storage may take to answer, and again to deliver all bytes.
    pub download_seconds: u64,
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits {
            tenant_share: 25,
            system_share: 25,
            probation_share: 20,
            files: 50_000,
            mapped: 16_000,
            missing: 200_000,
            missing_seconds: 60,
            largest_bytes: 2 << 30,
            downloads: 32,
            download_bytes: 2 << 30,
            download_seconds: 120,
        }
    }
}

impl CacheLimits {
    /// Everything that is wrong with these limits: field and reason.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let numbers = [
            ("tenant_share", u64::from(self.tenant_share), 1..=100),
            ("system_share", u64::from(self.system_share), 1..=100),
            ("probation_share", u64::from(self.probation_share), 1..=90),
            ("files", self.files, 1..=10_000_000),
            ("mapped", self.mapped as u64, 1..=60_000),
            ("missing", self.missing as u64, 1..=100_000_000),
            // Longer, and a lost event would be noticed too late.
            ("missing_seconds", self.missing_seconds, 1..=60),
            ("largest_bytes", self.largest_bytes, 1 << 20..=1 << 40),
            ("downloads", self.downloads as u64, 1..=1_024),
            ("download_bytes", self.download_bytes, 1 << 20..=1 << 40),
            ("download_seconds", self.download_seconds, 1..=3_600),
        ];
        let wrong = numbers.into_iter().filter(|(_, value, range)| !range.contains(value));
        wrong
            .map(|(field, _, range)| {
                (field, format!("must be between {} and {}", range.start(), range.end()))
            })
            .collect()
    }

    pub(super) fn remember_missing(&self) -> i64 {
        i64::try_from(self.missing_seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000)
    }

    pub(super) fn download(&self) -> Duration {
        Duration::from_secs(self.download_seconds)
    }
}

/// How the cache is set up.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// The folder, which is the cache's alone. It may be deleted at any time.
    pub folder: PathBuf,
    /// Bytes on disk. What is being downloaded comes on top, bounded by
    /// [`CacheLimits::download_bytes`].
    pub max_bytes: u64,
    /// Everything else that is bounded.
    pub limits: CacheLimits,
    /// The versions of the symcache's format that are asked for, the newest first.
    pub versions: Vec<u32>,
}

impl CacheSettings {
    /// The usual settings: every version that this build reads.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, max_bytes: u64) -> CacheSettings {
        CacheSettings {
            folder: folder.into(),
            max_bytes,
            limits: CacheLimits::default(),
            versions: symcache::READS.to_vec(),
        }
    }

    /// The same with these limits.
    #[must_use]
    pub fn limited(self, limits: CacheLimits) -> CacheSettings {
        CacheSettings { limits, ..self }
    }

    pub(super) fn part(&self, per_cent: u8) -> u64 {
        u64::try_from(u128::from(self.max_bytes) * u128::from(per_cent) / 100).unwrap_or(u64::MAX)
    }

    /// What a file of this size takes of the bytes: at least what is left for each of so many files.
    pub(super) fn cost(&self, size: u64) -> u64 {
        size.max(self.max_bytes / self.limits.files.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named_at_once() {
        assert!(CacheLimits::default().problems().is_empty());
        let none = CacheLimits {
            tenant_share: 0,
            system_share: 101,
            probation_share: 100,
            files: 0,
            mapped: 0,
            missing: 0,
            missing_seconds: 61,
            largest_bytes: 0,
            downloads: 0,
            download_bytes: 0,
            download_seconds: 0,
        };
        assert_eq!(none.problems().len(), 11);
    }
}
