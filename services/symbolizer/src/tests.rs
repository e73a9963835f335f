//! The lanes against a real Kafka, with object storage in memory.

mod answers;
mod drains;
mod fairness;
mod fetching;
mod figures;
mod moved;
mod readiness;
mod retries;
mod retry_progress;
mod segments;
mod senders;
mod storage;
mod symcache_locality;
mod whole;
mod worker_fixture;
