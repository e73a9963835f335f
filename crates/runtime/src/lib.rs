//! What every service runs on: configuration, telemetry, the admin server with health and metrics,
//! the CPU pool and the shutdown. It knows no Kafka, no database and no object storage.

pub mod admin;
pub mod config;
pub mod health;
mod host;
mod metrics;
mod pool;
pub mod sampled;
mod shutdown;
mod supervise;
pub mod telemetry;

pub use config::Problem;
pub use health::Health;
pub use host::Host;
pub use metrics::Metrics;
pub use pool::{CpuError, CpuPool, Job};
pub use shutdown::{ListenError, Shutdown};
pub use supervise::{Outcome, Supervised, supervise};
