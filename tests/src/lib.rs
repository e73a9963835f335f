//! A whole installation for one test: the built `unslide` binary as separate processes against real
//! Kafka, PostgreSQL and S3, clients as customers have them, and faults.

pub mod acls;
pub mod app;
pub mod binary;
pub mod browser;
pub mod cells;
pub mod client;
pub mod clock;
pub mod deadly;
pub mod debugger;
pub mod dice;
pub mod installation;
pub mod plan;
pub mod proxy;
pub mod topics;

/// Timeout of everything that comes without a request, on a machine that runs other tests too.
pub const EVENTUAL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(300);
