//! Chat: a server that plays Slack's API, and an api that posts to it and takes its buttons.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod buttons;
mod played;
mod setting;
mod shop;
mod threads;
mod ticket_button;
