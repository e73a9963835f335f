//! The symbolizer: reports from Kafka to enriched reports on Kafka, with symcaches from object
//! storage. It needs nothing else, so it scales with the partitions of its input.
//!
//! A lane (`live`, `retry`, `resymbolicate`) says what becomes of one record; everything about
//! transactions and partitions is `unslide_stream::lane`'s. Symbols are fetched asynchronously, then
//! the pure core runs on the CPU pool. A record that can't be answered now gets another outcome
//! (retry, overflow) and holds nobody up.

mod admission;
mod config;
mod lanes;
mod metrics;
mod output;
mod run;
mod source_record;
mod symbols;
#[cfg(test)]
mod tests;
mod worker;

pub use config::{Config, Settings};
pub use run::{Error, run};
