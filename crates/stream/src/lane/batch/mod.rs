//! From polled records to prepared outputs.

pub(super) mod gather;
pub(super) mod prepare;
pub(super) mod queues;
pub(super) mod slots;
