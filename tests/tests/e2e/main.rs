//! The service as its users meet it: the built binary, real Kafka, real PostgreSQL, an S3 endpoint.

mod administration;
mod captures;
mod commands;
mod console;
mod consumers;
mod dead_letters;
mod delivery;
mod embedded;
mod hang;
mod journey;
mod late_symbols;
mod source_maps;
mod symbols;
mod uploads;
mod workers;
