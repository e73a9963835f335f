//! Reports, requests and queries through real servers.

pub mod cells;
mod database;
pub mod fairness;
pub mod flow;
pub mod guarantee;
pub mod history;
pub mod http;
pub mod late;
pub mod latency;
pub mod outages;
pub mod queries;
mod quota;
pub mod scale;
pub mod scaling;
pub mod shares;
pub mod store;
pub mod unpacking;
