//! Requests to symbol sources, through the egress rules and within bounds of time and size.

mod answer;
mod client;
mod download;
mod failure;

pub use answer::SourceAnswer;
pub use client::SourceClient;
pub use download::{DownloadEnd, SourceDownload};
pub use failure::SourceFailure;
