//! The symbolizer reads reports from Kafka and writes enriched reports to Kafka, with symcaches from object
//! storage. It needs nothing else, so it scales with the partitions of its input.
//!
//! A lane (`live`, `retry`, `resymbolicate`) decides the outcome of one record; `unslide_stream::lane`
//! handles transactions and partitions. Symbols are fetched asynchronously, then the pure core runs on the
//! CPU pool. A record that cannot be answered now gets another outcome (retry, overflow) and blocks no other
//! record.

mod admission;
mod config;
mod enricher;
pub mod feature;
mod lanes;
mod metrics;
mod output;
mod retry_tiers;
mod run;
mod source_record;
mod symbols;
#[cfg(test)]
mod tests;
mod worker;

pub use config::{Config, Settings};
pub use feature::SymbolizerFeatures;
pub use run::{Error, run};
