//! Outputs and offsets in one transaction.

pub(super) mod commit;
pub(super) mod markers;
pub(super) mod transaction;
