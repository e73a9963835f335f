//! What ties rows to Kafka: the outbox, how far topics were read, and records that were left out.

pub mod dead_letters;
pub mod deferred;
pub mod outbox;
pub mod positions;
pub mod quarantine;
