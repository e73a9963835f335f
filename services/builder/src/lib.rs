//! The builder unpacks uploaded files, builds a symcache from each object, publishes the best one of each
//! debug id, and requests the reports that waited for it. It also sends the messages in the database's outbox
//! to Kafka.
//!
//! Every job is a leased row, and every step of a job may be repeated. If a builder dies, the next one
//! repairs what it left.

mod build;
mod builder;
mod config;
mod deleted_tenants;
mod deletion;
mod failure;
pub mod feature;
mod isolation;
mod lost_attempts;
mod metrics;
mod notifications;
mod places;
mod relay;
mod requests;
mod run;
mod storage;
mod stored_bodies;
mod worker;

pub use build::slices::serve_child;
pub use config::{Config, Settings};
pub use feature::{BuilderFeature, BuilderFeatures};
pub use run::{Error, run};
