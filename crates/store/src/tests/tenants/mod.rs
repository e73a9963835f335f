pub mod app_settings;
pub mod erasure;
pub mod isolation;
pub mod ownership;
mod statistics;
