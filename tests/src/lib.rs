//! A whole installation for one test: the built `unslide` binary as separate processes against the
//! shared Kafka and PostgreSQL and an S3 endpoint of its own, and clients as customers have them.

pub mod app;
pub mod binary;
pub mod client;
pub mod installation;
pub mod topics;
