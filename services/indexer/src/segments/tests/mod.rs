//! The body mover on a real PostgreSQL, with a bucket in memory whose failures are switched.

mod kills;
mod lifetime;
pub mod world;
