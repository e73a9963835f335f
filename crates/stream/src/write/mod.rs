//! Producers.

pub(super) mod byte_bound;
pub(super) mod fenced;
pub(crate) mod polled;
pub(super) mod producer;
pub(super) mod waking;
