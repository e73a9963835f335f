//! Outputs and offsets in one transaction.

pub(super) mod commit;
mod delivery;
pub(super) mod markers;
mod send_offsets;
pub(super) mod transaction;
