//! The lanes against a real Kafka, with object storage in memory.

mod answers;
mod fairness;
mod fetching;
mod retries;
mod senders;
mod storage;
mod world;
