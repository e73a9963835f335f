//! The statements about caps, and about bodies over them.

mod candidates;
mod caps;
mod turns;

pub use candidates::{
    CandidateGroup, Slice, SliceOfBodies, list_candidates, list_kept, list_slice_groups, list_unchosen,
    next_slice, next_waiting_group,
};
pub use caps::{AppCap, MAX_BODIES, describe_limit, list_caps, set_cap};
pub use turns::{BodyTurn, claim_turn, end_turn, hold_turn, list_due_tenants, record_slice, record_waiting};

use unslide_store::StoreHook;
use unslide_store::tables::{KeyColumn, OwnedTable};

/// The tables of the feature, in the order in which it locks their rows.
pub const BODY_CAP_HOOK: StoreHook = StoreHook::with_tables(
    crate::NAME,
    &[
        OwnedTable { key: &[KeyColumn::Text("app")], ..OwnedTable::new("body_caps") },
        OwnedTable::new("body_cap_turns"),
    ],
);
