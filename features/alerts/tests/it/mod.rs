//! Alerts on real servers: what is stored, what is sent, and what the console shows.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts_api;
mod cards;
mod escalation;
mod figures;
mod fleet;
mod frequent;
mod hooks;
mod hours;
mod mail;
mod messages;
mod page;
mod pagers;
mod receiver_tests;
mod recipients;
mod routing;
mod sending;
mod summary;
