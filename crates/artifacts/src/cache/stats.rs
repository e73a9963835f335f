//! Cache statistics for metrics.

use super::SymcacheCache;
use unslide_model::Stats;

/// Counters since the cache was opened, and its current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Answers that needed no request, including "missing".
    pub hits: u64,
    /// Requests to object storage.
    pub fetches: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Symcaches that were evicted.
    pub evictions: Evictions,
    /// Files with wrong or damaged contents.
    pub corrupt: u64,
    /// Symcaches on disk that were used only once.
    pub probation: u64,
    /// Symcaches on disk that were used more than once.
    pub proven: u64,
    /// Bytes on disk, without running downloads.
    pub bytes: u64,
    /// Symcaches that are mapped into memory.
    pub mapped: u64,
    /// Maps that were released because there were too many.
    pub unmapped: u64,
    /// Remembered answers that there is no symcache.
    pub missing: u64,
    /// Remembered answers that were dropped early because there were too many.
    pub missing_dropped: u64,
    /// Running downloads.
    pub downloads: u64,
    /// Bytes on disk reserved for running downloads.
    pub download_bytes: u64,
    /// Downloads that did not fit on the disk on the first try.
    pub disk_full: u64,
}

impl CacheStats {
    /// Returns the number of symcaches on disk.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.probation + self.proven
    }
}

impl SymcacheCache {
    /// Metrics of a cache and its limits.
    pub const CACHE_STATS: [Stats<SymcacheCache>; 3] = [
        Stats {
            name: "unslide_symcaches",
            help: "Symcaches on disk and in memory, and answers that there is none.",
            label: "state",
            read: |cache| {
                let stats = cache.stats();
                vec![
                    ("probation", stats.probation),
                    ("proven", stats.proven),
                    ("mapped", stats.mapped),
                    ("missing", stats.missing),
                    ("downloading", stats.downloads),
                ]
            },
        },
        Stats {
            name: "unslide_symcaches_bytes",
            help: "Bytes of symcaches on disk, kept and being downloaded.",
            label: "state",
            read: |cache| {
                let stats = cache.stats();
                vec![("kept", stats.bytes), ("downloading", stats.download_bytes)]
            },
        },
        Stats {
            name: "unslide_symcaches_evicted_total",
            help: "Symcaches that were evicted, by reason.",
            label: "reason",
            read: |cache| {
                let stats = cache.stats();
                vec![
                    ("over_share", stats.evictions.over_share),
                    ("probation", stats.evictions.probation),
                    ("least_used", stats.evictions.least_used),
                    ("disk_full", stats.evictions.disk_full),
                    ("unmapped", stats.unmapped),
                    ("missing", stats.missing_dropped),
                    ("corrupt", stats.corrupt),
                ]
            },
        },
    ];
}

/// Evicted symcaches, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evictions {
    /// Their owner exceeded its share.
    pub over_share: u64,
    /// They were used once, and so were too many others.
    pub probation: u64,
    /// They were the least recently used.
    pub least_used: u64,
    /// The disk was too full for a download.
    pub disk_full: u64,
}

impl Evictions {
    /// Returns the total.
    #[must_use]
    pub fn total_count(&self) -> u64 {
        self.over_share + self.probation + self.least_used + self.disk_full
    }
}
