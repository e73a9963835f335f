//! The door of several cells: a reverse proxy that passes each request on to the cell of its tenant.
//!
//! It keeps nothing. The directory of cells says which cell has a tenant, and the cells themselves say which tenant a request is
//! of: the door asks all of them at once, and remembers the answer for a minute. A cell that is away, or slow, takes nothing from
//! requests of the others.

mod asking;
mod callers;
mod cells;
mod client_stream;
mod config;
mod directory;
mod door;
mod head;
mod metrics;
mod passing;
mod refusal;
mod run;
mod server;

pub use config::{Config, Settings};
pub use run::{Error, bind_listener, run, run_on};
