//! Tests on a real PostgreSQL, each in a database of its own.

mod alerts;
mod captures;
mod database;
mod dead_letters;
mod live_events;
mod metrics;
mod pool;
mod positions;
mod purge;
mod reports;
mod requests;
mod sessions;
mod symbols;
mod tenants;
mod work;
