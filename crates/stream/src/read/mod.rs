//! Readers of topics.

pub mod scan;
pub(super) mod spread;
pub(super) mod tail;
pub(super) mod waking;
