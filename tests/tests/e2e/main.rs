//! The service as its users meet it: the built binary, real Kafka, real PostgreSQL, an S3 endpoint.

mod commands;
mod dead_letters;
mod delivery;
mod deployment;
mod journey;
mod late_symbols;
mod workers;
