//! What Unslide keeps in PostgreSQL, and the only place that speaks SQL.
//!
//! A [`Store`] is a pool of connections that act as a role which cannot bypass row-level security.
//! Everything of a tenant happens in a [`TenantTx`], a transaction that names the tenant to the
//! database; the few questions that concern all tenants are functions of the database's owner.
//! Modules are named after what they keep. Times come from the store's clock.

pub mod api_processes;
pub mod audit;
pub mod cursor;
pub mod dead_letters;
pub mod erasure;
mod error;
pub mod jobs;
pub mod keys;
mod listen;
mod migrations;
mod number;
pub mod objects;
pub mod outbox;
pub mod partial;
pub mod partitions;
pub mod positions;
pub mod quarantine;
pub mod queries;
pub mod reports;
pub mod reprocess;
pub mod requests;
pub mod retention;
pub mod retries;
pub mod segments;
mod settings;
pub mod slots;
mod store;
pub mod symbols;
pub mod tenants;
#[cfg(test)]
mod tests;
pub mod uploads;
pub mod usage;
pub mod wakes;

pub use error::StoreError;
pub use listen::{Channel, Listener};
pub use migrations::{Migrated, migrate};
pub use settings::Settings;
pub use store::{BatchTx, OwnerTx, Store, TenantTx};
pub use uuid::Uuid;

/// The result of everything here.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
