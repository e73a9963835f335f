//! The builder against a real database, a real broker and a real S3 endpoint.

mod late_symbols;
mod outages;
mod uploads;
mod world;
