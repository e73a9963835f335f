//! Outputs and offsets in one transaction.

pub(super) mod commit;
pub(super) mod transaction;
