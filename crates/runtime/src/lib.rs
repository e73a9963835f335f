//! The common base of all services: configuration, telemetry, traces, the admin server with health and metrics,
//! the CPU pool, fairness between tenants and the shutdown. It does not depend on Kafka, databases
//! or object storage.

#![warn(missing_docs)]

pub mod admin;
pub mod clients;
pub mod config;
pub mod egress;
mod errors;
pub mod fairness;
pub mod health;
mod host;
#[cfg(target_env = "gnu")]
pub mod memory;
mod metrics;
mod pool;
pub mod resource_use;
mod shutdown;
pub mod startup;
mod supervise;
pub mod telemetry;
mod tenants;
pub mod traces;

pub use config::ConfigProblem;
pub use errors::panic_text;
pub use health::Health;
pub use host::Host;
pub use metrics::{MetricFactory, Metrics, sampled, status_class};
pub use pool::{CpuError, CpuJob, CpuPool, job_bytes};
pub use shutdown::{ListenError, Shutdown};
pub use supervise::{ServiceEnd, Supervised, supervise_services};
pub use tenants::TenantDefaults;
