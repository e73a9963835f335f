//! The public HTTP interface: symbols in, reports in, answers out.
//!
//! A request passes, from the outside in: a connection, an id, a span, counters and the rendering of errors
//! (`http`), bounds on load and memory (`limits`), its key and scope (`requests`), and then one file under
//! `operations`. Every error is a [`problem::Problem`], and only [`problem`] turns one into HTTP.

mod app;
mod background;
mod config;
pub mod entropy;
pub mod feature;
mod http;
mod limits;
mod list_tables;
mod metrics;
mod openapi;
mod operations;
mod reports;
mod requests;
mod run;
mod state;
mod uploads;

pub use crate::http::problem;
pub use app::{build_app, build_document};
pub use config::{Config, RequestLimits, Settings, Signing};
pub use run::{ApiFeatures, Error, bind_listener, build_api, run, run_on};
