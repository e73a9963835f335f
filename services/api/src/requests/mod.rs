//! Inputs of operations from requests, and the form of their responses.

pub mod accept;
pub mod accepted;
pub mod access;
pub mod body;
pub mod broker;
pub mod digest;
pub mod events;
pub mod input;
pub mod kept_scanner;
pub mod keys;
mod messages;
pub mod page;
pub mod records;
pub mod refused;
pub mod wait;
