//! The indexer makes Postgres a view of the enriched reports in Kafka.
//!
//! It reads the output topic from positions that are rows of the database, and stores each batch together
//! with its new positions in one transaction. So no record is stored twice, a reader that lost its partition
//! stores no records, and a replay from the start changes no data. It also reads the ledger, for requests
//! that ended without a new revision, and the topics of features, and moves the bodies of reports into segments in object storage.

mod config;
mod deferral;
mod failure;
mod feature;
mod history;
mod maintenance;
mod metrics;
mod pipeline;
mod reader;
mod records;
mod reset;
mod rewriting;
mod run;
mod segments;
mod topics;

pub use config::{Config, SenderRules, Settings};
pub use feature::{
    AppKeys, EventKeys, EventTopic, IndexerFeature, IndexerFeatures, LoadRewriter, ReportRewriting,
    RewriteReports, RewrittenReport, StoreEvents, TopicEvent,
};
pub use records::stored::{StoredDocument, rewrite_stored_report};
pub use reset::{Reset, misplaced_positions, reset_positions};
pub use run::{Error, run};
