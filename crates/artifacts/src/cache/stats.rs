//! Figures for metrics.

use super::SymcacheCache;
use unslide_model::Stats;

/// Figures since the cache was opened, and its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Answers that needed no request, "missing" included.
    pub hits: u64,
    /// Requests to object storage.
    pub fetches: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Symcaches that made room for others.
    pub evictions: Evictions,
    /// Files that were not what they should be.
    pub corrupt: u64,
    /// Symcaches on disk that were used once.
    pub probation: u64,
    /// Symcaches on disk that were used again.
    pub proven: u64,
    /// Bytes on disk, without what is being downloaded.
    pub bytes: u64,
    /// Symcaches that are mapped into memory.
    pub mapped: u64,
    /// Maps that were given back because there were too many.
    pub unmapped: u64,
    /// Remembered "there is none".
    pub missing: u64,
    /// Those that were dropped before their time because there were too many.
    pub missing_dropped: u64,
    /// Downloads that run.
    pub downloads: u64,
    /// Bytes on disk that running downloads may take.
    pub download_bytes: u64,
    /// Downloads that did not fit on the disk at the first try.
    pub disk_full: u64,
}

impl CacheStats {
    /// Symcaches on disk.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.probation + self.proven
    }
}

impl SymcacheCache {
    /// What a cache says of its bounds.
    pub const STATS: [Stats<SymcacheCache>; 3] = [
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

/// Symcaches that made room for others, by why it was them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evictions {
    /// Their owner had more than its share.
    pub over_share: u64,
    /// They were used once, and too many others were too.
    pub probation: u64,
    /// They were used longest ago.
    pub least_used: u64,
    /// The disk had no room for a download.
    pub disk_full: u64,
}

impl Evictions {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.over_share + self.probation + self.least_used + self.disk_full
    }
}
