//! Limits of the cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use unslide_symbolicate::symcache;

/// The longest time that "there is none" is remembered. If it were longer, a lost event would be noticed too
/// late.
pub(super) const REMEMBER_MISSING_MICROS: i64 = 60_000_000;

/// Bounds of the cache, which services read from their section `symcaches`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct CacheLimits {
    /// Per cent of the bytes that one tenant keeps when others want room.
    #[serde(skip)]
    pub tenant_share: u8,
    /// Per cent of the bytes that the system's symcaches keep when tenants want room.
    #[serde(skip)]
    pub system_share: u8,
    /// Per cent of the bytes, of the whole and of each share, for symcaches that were used only
    /// once: new ones have that much room to be used again, and push nothing else out.
    #[serde(skip)]
    pub probation_share: u8,
    /// Number of cached files. If this is reached before the byte limit, each file counts as its share of the
    /// bytes.
    #[serde(skip)]
    pub files: u64,
    /// Symcaches that are mapped into memory. The others stay on disk and are verified and mapped
    /// again when they are used. Linux allows a process some 65,000 maps.
    #[serde(skip)]
    pub mapped: usize,
    /// Number of absent symcaches that the cache remembers, so that it does not ask storage again.
    #[serde(skip)]
    pub missing: usize,
    /// Bytes of the largest symcache that is fetched.
    #[serde(skip)]
    pub largest_bytes: u64,
    /// Downloads at the same time.
    #[serde(skip)]
    pub downloads: usize,
    /// Bytes of what is being downloaded, on disk beside what is kept. A larger symcache is
    /// downloaded alone.
    #[serde(rename = "download_size", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub download_bytes: u64,
    /// Seconds that object storage may take to answer, and again to deliver all bytes.
    #[serde(skip)]
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
            largest_bytes: 2 << 30,
            downloads: 32,
            download_bytes: 2 << 30,
            download_seconds: 120,
        }
    }
}

impl CacheLimits {
    /// Returns all problems of these limits: field and reason.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let wrong = !(1 << 20..=1 << 40).contains(&self.download_bytes);
        wrong.then(|| ("download_size", "must be between 1MiB and 1TiB".to_owned())).into_iter().collect()
    }

    pub(super) fn download_timeout(&self) -> Duration {
        Duration::from_secs(self.download_seconds)
    }
}

/// Settings of the cache.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// The folder, used by the cache only. It may be deleted at any time.
    pub folder: PathBuf,
    /// The most bytes on disk. Running downloads come on top, limited by [`CacheLimits::download_bytes`].
    pub max_bytes: u64,
    /// All other limits.
    pub limits: CacheLimits,
    /// The versions of the symcache's format that are requested, the newest first.
    pub versions: Vec<u32>,
}

impl CacheSettings {
    /// Returns the usual settings, with every version that this build reads.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, max_bytes: u64) -> CacheSettings {
        CacheSettings {
            folder: folder.into(),
            max_bytes,
            limits: CacheLimits::default(),
            versions: symcache::READ_SYMCACHE_VERSIONS.to_vec(),
        }
    }

    /// Returns the same settings with these limits.
    #[must_use]
    pub fn with_limits(self, limits: CacheLimits) -> CacheSettings {
        CacheSettings { limits, ..self }
    }

    pub(super) fn bytes_for_percent(&self, per_cent: u8) -> u64 {
        u64::try_from(u128::from(self.max_bytes) * u128::from(per_cent) / 100).unwrap_or(u64::MAX)
    }

    /// Returns a file's cost in bytes: at least an equal part of the whole, because the number of files is
    /// limited too.
    pub(super) fn file_cost(&self, size: u64) -> u64 {
        size.max(self.max_bytes / self.limits.files.max(1))
    }
}
