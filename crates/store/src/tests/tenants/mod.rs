pub mod app_settings;
pub mod app_signals;
pub mod erasure;
mod figures;
pub mod isolation;
mod key_proofs;
pub mod ownership;
mod plans;
mod statistics;
