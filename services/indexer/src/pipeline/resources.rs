//! What the pipelines of one reader share.

use crate::config::Settings;
use crate::metrics::{Metrics, ReaderLabel};
use crate::pipeline::skips::SkipLimit;
use crate::records::{Content, ReadRecord};
use crate::rewriting::ReportRewriters;
use crate::topics::Topics;
use std::sync::Arc;
use unslide_report::reader::ReportReaders;
use unslide_runtime::Host;
use unslide_runtime::fairness::FairShares;
use unslide_store::Store;
use unslide_stream::Signatures;

/// Shared resources of the pipelines of one reader. Cheap to clone.
#[derive(Clone)]
pub struct Resources {
    /// The topics that its records come from.
    pub topics: Topics,
    /// Name of the reader in metrics.
    pub label: ReaderLabel,
    pub content: Content,
    /// The gateways' keys, for checking signatures.
    pub signatures: Arc<Signatures>,
    pub settings: Settings,
    /// Settings of the connection to Kafka.
    pub kafka: unslide_stream::Settings,
    pub store: Store,
    /// CPU pool, clock, tracer and shutdown of the process.
    pub host: Host,
    pub metrics: Metrics,
    /// How much of the reader's time each tenant uses.
    pub shares: Arc<FairShares>,
    /// Decides which records are skipped.
    pub skips: SkipLimit,
    /// Function that reads a record.
    pub read: ReadRecord,
    /// Readers of reports in other formats.
    pub readers: ReportReaders,
    /// The rewriters of reports that features have.
    pub rewriters: Arc<ReportRewriters>,
}
