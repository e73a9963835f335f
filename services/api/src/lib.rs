//! The public HTTP interface: symbols in, reports in, answers out.
//!
//! A request passes, from the outside in: a connection, an id, a span, counters and the rendering of errors
//! (`http`), bounds on load and memory (`limits`), its key and scope (`requests`), and then one file under
//! `operations`. Every error is a [`problem::Problem`], and only [`problem`] turns one into HTTP.
//!
//! The state of the operations has parts by subject (`state`). An operation takes the part that it uses.

mod app;
mod background;
mod config;
pub mod entropy;
pub mod feature;
mod http;
mod limits;
mod lists;
mod metrics;
mod openapi;
mod operation_router;
mod operations;
mod panels;
pub mod problem;
mod reports;
mod requests;
mod run;
mod state;
mod storage;
mod uploads;

pub use app::{build_app, build_document};
pub use config::{Config, Settings, Signing};
pub use limits::request_limits::RequestLimits;
// For the macro `routes`, which features use.
#[doc(hidden)]
pub use operation_router::PathOperations;
#[doc(hidden)]
pub use pastey::paste;
pub use run::{ApiFeatures, Error, bind_listener, build_api, run, run_on};
