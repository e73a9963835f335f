//! The builder: unpacks uploaded files, builds a symcache from each object, publishes the best
//! one of each debug id, and wakes the reports that waited for it. Also sends what the database's
//! outbox holds to Kafka.
//!
//! Every job is a leased row, and every step of a job may be done again: a builder that dies leaves
//! nothing that the next one does not put right.

mod build;
mod builder;
mod config;
mod deletion;
mod failure;
pub mod feature;
mod isolation;
mod metrics;
mod notifications;
mod places;
mod relay;
mod requests;
mod run;
mod worker;

pub use build::serve::serve as serve_child;
pub use build::symcache::{BuildError, LocalSymcache, SymcacheSource, build_symcache};
pub use config::{Config, Settings};
pub use feature::{BuilderFeature, BuilderFeatures, ChildTask, Clearing};
pub use run::{Error, run};
