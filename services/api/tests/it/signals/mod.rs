//! Signals beside reports: sessions, metrics and captures.

pub mod captures;
pub mod metrics;
pub mod sessions;
