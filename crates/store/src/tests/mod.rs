//! Tests on a real PostgreSQL, each in a database of its own.

mod cells;
mod checked_statements;
mod clocks;
mod database;
mod history;
mod hooks;
mod kafka;
mod locks;
mod migrating;
mod outages;
mod pool;
mod pooler;
mod purge;
mod reports;
mod requests;
mod statements;
mod symbols;
mod tenants;
mod work;
