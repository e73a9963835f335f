//! Outputs and offsets in one transaction.

pub(super) mod commit;
pub(super) mod markers;
mod send_offsets;
pub(super) mod transaction;
