//! Rows that belong to Kafka: the outbox, read positions of topics, and dead letters.

pub mod dead_letters;
pub mod deferred;
pub mod outbox;
pub mod positions;
