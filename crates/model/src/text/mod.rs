//! Texts that programs and people both read.

pub(super) mod host;
pub(super) mod line;
pub(super) mod shell;
pub mod units;
pub(super) mod words;
