//! The symbolizer: reports from Kafka to enriched reports on Kafka, with symcaches from object
//! storage. It needs nothing else, so it scales with the partitions of its input.
//!
//! A lane (`live`, `retry`, `resymbolicate`) says what becomes of one record; everything about
//! transactions and partitions is `unslide_stream::lane`'s. Symbols are fetched asynchronously, then
//! the pure core runs on the CPU pool. A record that can't be answered now gets another outcome
//! (retry, overflow) and holds nobody up.

mod account;
mod bodies;
mod breaker;
mod bucket;
mod config;
mod entry;
mod intake;
mod letters;
mod live;
mod metrics;
mod outcomes;
mod outputs;
mod resymbolicate;
mod retry;
mod rotation;
mod run;
mod sender;
mod shares;
mod signatures;
mod stored_bodies;
mod symbol_events;
mod symbols;
mod tenants;
#[cfg(test)]
mod tests;
mod tiers;
mod worker;

pub use config::{BreakerSettings, Config, Settings};
pub use run::{Error, run};
pub use signatures::{Key, Settings as SignatureSettings};
