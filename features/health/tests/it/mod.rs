//! Sessions and metric payloads on real servers: their rows and figures, and the way from Kafka to them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod database;
mod health_indexer;
mod hours;
mod indexed_metrics;
mod indexed_sessions;
mod memory_exceptions;
mod metric_kit_days;
mod metrics;
mod person;
mod sampling;
mod session_flags;
mod sessions;
mod statements;
mod timeline;
