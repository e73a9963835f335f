//! The API of App Store Connect, as far as crash reports by testers need it: apps, lists of submissions, and crash logs.
//!
//! `token` signs requests, `answers` reads answers, `rate` the limits that they name, and `client` sends requests, to Apple's
//! address only.

mod answers;
mod client;
mod rate;
mod token;

pub use answers::CrashSubmission;
pub use client::{AppleClient, AppleError, AppleSession, ListStart};
pub use token::{AppleKey, AppleKeyError};
