//! Producers.

pub(super) mod fenced;
pub(super) mod producer;
