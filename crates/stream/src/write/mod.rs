//! Producers.

pub(super) mod fenced;
mod polled;
pub(super) mod producer;
pub(super) mod waking;
