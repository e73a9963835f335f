//! Storage of Unslide in PostgreSQL. Features have statements of their own, for their own tables: [`sql`] is
//! for them.
//!
//! A [`Store`] is a pool of connections that act as a role which cannot bypass row-level security. Everything
//! of a tenant happens in a [`TenantTx`], a transaction that names the tenant to the database; the few
//! queries that concern all tenants are functions of the database's owner. Modules are named after their
//! data. Times come from the store's clock. Every function returns an error if the database fails; its
//! documentation names only further errors.

#![warn(missing_docs)]

pub mod cells;
pub mod cursor;
mod database;
pub mod directory;
mod events;
pub mod gateway_events;
pub mod group_links;
pub mod group_tickets;
pub mod groups;
mod hooks;
mod ids;
pub mod jobs;
mod kafka;
pub mod queries;
pub mod report_rows;
pub mod reports;
pub mod requests;
pub mod segments;
pub mod sessions;
pub mod sql;
pub mod symbol_lookups;
mod symbol_waits;
pub mod symbols;
pub mod tables;
pub mod tenants;
#[cfg(test)]
mod tests;
pub mod watched_figures;

pub use cells::place;
pub use database::{
    BatchTx, Channel, Listener, Migrated, OwnerTx, Settings, Store, StoreError, TenantTx, apply_migrations,
};
pub(crate) use database::{column, json, migrations, number, purge};
pub use events::{
    Announcement, BadRelease, DeletedReport, MemoryException, ReportPlace, StoreEvent, StoredReport,
    StoredReports, TEXTS_REMOVED,
};
pub use hooks::{
    HookFuture, Measures, StoreHook, announce_to_features, find_directory_entry, list_bad_releases,
    list_group_links, list_lookups, report_directory_change, report_ended_sessions, request_ticket,
};
pub use ids::{
    AuditEntryId, GroupActivityId, GroupId, GroupViewId, JobId, KeyId, ReprocessId, RunId, SegmentId,
    UploadId,
};
pub use kafka::{dead_letters, deferred, outbox, positions};
pub use reports::{deltas, history, partitions, retention};
pub use requests::{reprocess, retries, wakes};
pub use symbol_waits::{ArrivedSymbols, MissedSymbols, SymbolPosition, SymbolWaits, wake_features};
pub use symbols::{objects, partial, slots, uploads, usage};
pub use tables::{FeatureFile, expire_features, feature_files};
pub use tenants::{
    accounts, app_settings, app_signals, app_slots, audit, erasure, erasure_requests, figures, key_erasures,
    keys, persons, resource_uses,
};
pub use uuid::Uuid;

/// The result of everything here.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
