//! Names of the topics.

/// Reports as they come in.
pub const INPUT: &str = "crash.reports";
/// Enriched reports.
pub const OUTPUT: &str = "crash.symbolicated";
/// Records that wait ten seconds for another try.
pub const RETRY_10S: &str = "unslide.retry.10s";
/// Records that wait a minute for another try.
pub const RETRY_1M: &str = "unslide.retry.1m";
/// Records that wait ten minutes for another try.
pub const RETRY_10M: &str = "unslide.retry.10m";
/// Records of tenants over their share.
pub const OVERFLOW: &str = "unslide.overflow";
/// Stored reports that newer symbols make better.
pub const RESYMBOLICATE: &str = "unslide.resymbolicate";
/// Records that can't be processed, untouched, with the reason.
pub const DEAD_LETTER: &str = "unslide.dead-letter";
/// What each transaction did.
pub const LEDGER: &str = "unslide.ledger";
/// The state of every debug id (compacted).
pub const SYMBOL_EVENTS: &str = "unslide.symbol-events";
/// The state of every tenant (compacted).
pub const TENANT_CONFIG: &str = "unslide.tenant-config";

/// The topics of one installation: every name with the same prefix, which is empty unless several
/// installations (or tests) share a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicNames {
    /// See [`INPUT`].
    pub input: String,
    /// See [`OUTPUT`].
    pub output: String,
    /// See [`RETRY_10S`].
    pub retry_10s: String,
    /// See [`RETRY_1M`].
    pub retry_1m: String,
    /// See [`RETRY_10M`].
    pub retry_10m: String,
    /// See [`OVERFLOW`].
    pub overflow: String,
    /// See [`RESYMBOLICATE`].
    pub resymbolicate: String,
    /// See [`DEAD_LETTER`].
    pub dead_letter: String,
    /// See [`LEDGER`].
    pub ledger: String,
    /// See [`SYMBOL_EVENTS`].
    pub symbol_events: String,
    /// See [`TENANT_CONFIG`].
    pub tenant_config: String,
}

impl TopicNames {
    /// The standard names after `prefix` (such as `staging.`; may be empty).
    #[must_use]
    pub fn with_prefix(prefix: &str) -> TopicNames {
        let name = |topic: &str| format!("{prefix}{topic}");
        TopicNames {
            input: name(INPUT),
            output: name(OUTPUT),
            retry_10s: name(RETRY_10S),
            retry_1m: name(RETRY_1M),
            retry_10m: name(RETRY_10M),
            overflow: name(OVERFLOW),
            resymbolicate: name(RESYMBOLICATE),
            dead_letter: name(DEAD_LETTER),
            ledger: name(LEDGER),
            symbol_events: name(SYMBOL_EVENTS),
            tenant_config: name(TENANT_CONFIG),
        }
    }

    /// Every name, in the order of the fields.
    #[must_use]
    pub fn all(&self) -> [&str; 11] {
        [
            &self.input,
            &self.output,
            &self.retry_10s,
            &self.retry_1m,
            &self.retry_10m,
            &self.overflow,
            &self.resymbolicate,
            &self.dead_letter,
            &self.ledger,
            &self.symbol_events,
            &self.tenant_config,
        ]
    }
}

impl Default for TopicNames {
    fn default() -> TopicNames {
        TopicNames::with_prefix("")
    }
}
