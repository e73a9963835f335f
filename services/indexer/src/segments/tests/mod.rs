//! The body mover on a real PostgreSQL, with a bucket in memory. The tests switch its failures.

pub mod failpoint;
mod kills;
mod lifetime;
pub mod stored_bodies;
