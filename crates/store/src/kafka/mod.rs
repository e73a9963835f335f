//! Rows that belong to Kafka: the outbox, read positions of topics, and records that were left out.

pub mod dead_letters;
pub mod deferred;
pub mod outbox;
pub mod positions;
pub mod quarantine;
