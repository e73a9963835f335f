//! Connections and what every request and answer on them goes through.

mod client_address;
mod client_stream;
pub mod compress;
pub mod connections;
pub mod documents;
pub mod kept_body;
mod linger;
pub mod observe;
pub mod problem;
pub mod server;
pub mod time_limit;
pub mod trace;

pub use client_address::TrustedProxies;
