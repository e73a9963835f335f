//! The builder: takes uploaded files apart, builds a symcache from each object, publishes the best
//! one of each debug id, and wakes the reports that waited for it. Also sends what the database's
//! outbox holds to Kafka.
//!
//! Every job is a leased row, and every step of a job may be done again: a builder that dies leaves
//! nothing that the next one does not put right.

mod alone;
mod backfill;
mod build;
mod child;
mod config;
mod deletion;
mod erase;
mod failure;
mod message;
mod metrics;
mod missed;
mod news;
mod pace;
mod parts;
mod publish;
mod purge;
mod relay;
mod reprocess;
mod run;
mod slices;
mod upkeep;
mod wake;
mod work_folder;
mod worker;

pub use child::serve as serve_child;
pub use config::{Config, Settings};
pub use run::{Error, run};
