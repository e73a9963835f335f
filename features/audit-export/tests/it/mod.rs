//! Export of audit logs: servers of this machine that play receivers, and an api that sends to them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod entries;
mod outages;
mod setting;
mod shop;
mod syslog;
mod syslog_server;
mod turns;
mod webhook_server;
mod webhooks;
