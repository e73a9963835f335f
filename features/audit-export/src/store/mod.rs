//! The statements about receivers of audit logs.

mod receiver_rows;
mod turns;

pub use receiver_rows::{
    NewReceiverRow, ReceiverRow, list_receivers, lock_receivers, remove_receiver, set_receiver,
};
pub use turns::{
    ClaimedReceiver, claim_receivers, finish_turn, is_current_turn, list_due, oldest_unsent, record_sent,
};

use unslide_store::StoreHook;
use unslide_store::tables::OwnedTable;

/// The table of the feature.
pub const AUDIT_EXPORT_HOOK: StoreHook =
    StoreHook::with_tables(crate::NAME, &[OwnedTable::new("audit_receivers")]);
