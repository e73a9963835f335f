//! Real servers that need no installation: a private single-node Apache Kafka and a private
//! PostgreSQL as child processes, and with the feature `s3` an S3 endpoint in the process.
//!
//! The servers are fetched with Maven on first use, keep their state in one data folder, resume on
//! it, and end with the process that started them, also when that is killed.

#![expect(missing_docs, reason = "the fields of arguments and errors say what they are by their names")]

mod cache;
mod child;
mod clickhouse;
mod cluster;
mod error;
mod fetch;
mod kafka;
mod locale;
mod place;
mod ports;
mod postgres;
mod random;
#[cfg(feature = "s3")]
mod s3;
mod servers;

pub use cache::cache_folder;
pub use clickhouse::ClickHouse;
pub use cluster::KafkaCluster;
pub use error::Error;
pub use fetch::{Distribution, Progress, fetch};
pub use kafka::BrokerLogin;
pub use place::private_file;
pub use ports::free_port;
pub use random::random_text;
#[cfg(feature = "s3")]
pub use s3::S3Endpoint;
pub use servers::{Options, Server, Servers};
