//! The service as its users meet it: the built binary, real Kafka, real PostgreSQL, an S3 endpoint.

mod administration;
mod cell_commands;
mod cells;
mod commands;
mod console;
mod developer;
mod embedded;
mod erasures;
mod history;
mod reports;
mod restore;
mod scrubbing;
mod secured;
mod signals;
mod symbol_files;
