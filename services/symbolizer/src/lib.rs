//! The symbolizer: reports from Kafka to enriched reports on Kafka, with symcaches from object
//! storage. It needs nothing else, so it scales with the partitions of its input.
//!
//! A lane (`live`, `resymbolicate`) says what becomes of one record; everything about transactions
//! and partitions is `unslide_stream::lane`'s. Symbols are fetched asynchronously, then the pure
//! core runs on the CPU pool.

mod account;
mod config;
mod letters;
mod live;
mod metrics;
mod resymbolicate;
mod run;
mod symbol_events;
mod symbols;
mod tenants;
#[cfg(test)]
mod tests;
mod worker;

pub use config::{Config, Settings};
pub use run::{Error, run};
