//! The body mover on a real PostgreSQL, with a bucket in memory. The tests switch its failures.

mod kills;
mod lifetime;
pub mod world;
