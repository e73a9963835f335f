//! The lanes against a real Kafka, with object storage in memory.

mod answers;
mod fairness;
mod fetching;
mod retries;
mod segments;
mod senders;
mod storage;
mod world;
