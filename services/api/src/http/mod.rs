//! Connections and what every request and answer on them goes through.

pub mod compress;
pub mod documents;
pub mod kept_body;
mod linger;
pub mod observe;
pub mod problem;
pub mod server;
pub mod spans;
pub mod time_limit;
pub mod trace;

pub use server::{TrustedProxies, network_of_everything};
