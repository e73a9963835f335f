//! Counts input records and their outcomes by reading committed records: never by subtracting offsets, since
//! the markers of transactions and aborted records take offsets as well.
//!
//! Every record of every topic that a lane consumes has exactly one outcome: a published report, a dead
//! letter, a copy in a retry tier or in overflow, or an end in the ledger; of an array each report has one.
//! An outcome names its record in the `source-…` headers. A copy is a record with an outcome of its own and
//! counts for the record that it is a copy of. [`AuditTally`] holds the arithmetic and knows nothing of
//! Kafka.

#[cfg(test)]
mod kafka_tests;
mod ledger;
mod snapshot;
mod summary;
mod tally;
#[cfg(test)]
mod tests;

pub use summary::{AuditScope, Finding, Summary, SummaryRow};
pub use tally::{AuditTally, Extent, RecordPosition, Role, Taken, TooMany, Traced};

use std::time::Duration;
use unslide_stream::{Settings, StreamError};

/// Which inputs are audited, by the time at which they came in: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// From here on. Without it everything of which retention cannot have deleted outcomes.
    pub from: Option<i64>,
    /// Before here. Without it everything up to now.
    pub to: Option<i64>,
}

/// An audit that came to its end.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The audited time: the requested one, with the default start filled in.
    pub window: Window,
    /// The reason for this start, if the caller did not ask for it.
    pub because: Option<String>,
    /// Records read.
    pub read: u64,
    /// The sum.
    pub summary: Summary,
}

/// Why there is no audit.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Kafka.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Too much of it.
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

/// How far the audit is.
#[derive(Clone, Copy, Debug)]
pub struct AuditProgress<'p> {
    /// The topic that is read.
    pub topic: &'p str,
    /// Records read of all topics.
    pub records: u64,
}

/// Reads the topics and adds up, while the installation goes on running. `now` is the time, in milliseconds
/// since the Unix epoch. It waits for transactions that are open when it begins, at most `patience`.
///
/// # Errors
/// [`AuditError`]; then there is no result.
pub async fn run_audit(
    settings: &Settings,
    window: Window,
    now: i64,
    patience: Duration,
    progress: impl Fn(AuditProgress<'_>) + Send + 'static,
) -> Result<Audit, AuditError> {
    let settings = settings.clone();
    let work = move || snapshot::run_audit(&settings, window, now, patience, &progress);
    tokio::task::spawn_blocking(work).await.map_err(|_| StreamError::Ended("the topics".to_owned()))?
}
