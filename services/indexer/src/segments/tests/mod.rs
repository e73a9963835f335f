//! The compactor on a real PostgreSQL, with a bucket in memory whose failures are switched.

mod kills;
mod upkeep;
mod world;
