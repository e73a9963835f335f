//! The public HTTP interface: symbols in, reports in, answers out.
//!
//! A request passes, from the outside in: a connection ([`serve`]), an id, a span, counters and the
//! rendering of errors ([`observe`]), bounds on load and time, its key and scope ([`access`]), and
//! then one file under [`operations`]. Every error is a [`problem::Problem`], and only
//! [`problem`] turns one into HTTP.

mod accept;
pub mod access;
mod app;
pub mod body;
mod config;
mod deleted_tenants;
mod digest;
mod docs;
pub mod entropy;
mod image_symbols;
pub mod ingest;
mod input;
pub mod key_uses;
mod linger;
mod magic;
mod memory;
pub mod metrics;
mod multipart;
pub mod observe;
pub mod openapi;
pub mod operations;
mod pace;
pub mod page;
mod parts;
mod permits;
pub mod problem;
pub mod rates;
mod receive;
mod run;
pub mod serve;
pub mod state;
mod stored_body;
mod topics_check;
pub mod trace;
mod tx;
pub mod upload_news;

pub use app::{app, document};
pub use config::{Config, Limits, Settings, Signing};
pub use run::{Error, build, listen, run, run_on};
