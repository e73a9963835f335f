//! The statements: sessions, metric payloads, and figures that are made of both.

mod apps;
pub mod figures;
mod hooks;
pub mod hours;
pub mod memory_exceptions;
pub mod metrics;
mod session_hook;
pub mod sessions;

pub use apps::measured_apps;
pub use hooks::HEALTH_HOOK;
