//! OTLP on real servers: what senders write, what they are answered, and what a collector gets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod clients;
mod collector;
mod exporting;
mod otlp_api;
mod outage;
mod sending;
mod settings;
