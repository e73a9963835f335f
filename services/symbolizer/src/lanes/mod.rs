//! The lanes of the worker: how each processes its records.

pub mod batch;
pub mod intake;
pub mod live;
pub mod record_reports;
pub mod resymbolicate;
pub mod retry;
