//! The database itself: connections and transactions, the schema's history, and how columns are read.

mod clock;
pub(crate) mod column;
pub(crate) mod days;
mod error;
pub(crate) mod json;
mod listen;
mod lock_timeout;
pub(crate) mod migrations;
pub(crate) mod number;
mod partitioned_indexes;
pub(crate) mod purge;
mod settings;
mod store;

pub use error::StoreError;
pub use listen::{Channel, Listener};
pub use migrations::{Migrated, apply_migrations};
pub use settings::Settings;
pub use store::{BatchTx, OwnerTx, Store, TenantTx};
