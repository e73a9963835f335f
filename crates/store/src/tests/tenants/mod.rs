mod access_changes;
pub mod app_settings;
pub mod app_signals;
pub mod erasure;
pub mod isolation;
pub mod ownership;
mod statistics;
