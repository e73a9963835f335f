//! From polled records to prepared outputs.

pub(super) mod byte_bound;
pub(super) mod gather;
pub(super) mod prepare;
pub(super) mod slots;
