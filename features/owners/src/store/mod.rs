//! The statements about files of owners, the owners of groups, and which of these are to be looked for.

mod apps;
mod files;
mod groups;
mod hook;
mod looks;
mod shares;

pub use apps::{APPS_LIMIT, OwnersApp, get_app, list_apps, set_paths};
pub use files::{
    NewOwnersFile, OwnersFileId, StoredOwnersFile, delete_file, find_same_version, list_files, read_content,
    store_file,
};
pub use groups::{GroupOwner, OwnerExplanation, OwnerLook, get_group_owner};
pub use looks::{
    DueGroup, LABEL_PREFIX, LOOK_FAILURES_LIMIT, NO_OWNER_LABEL, UnchangedLooks, claim_groups, finish_look,
    list_due_tenants, make_groups_due, record_failed_look,
};
pub use shares::{OwnerCount, OwnerShares, count_owners, measure_shares};

use unslide_store::StoreHook;
use unslide_store::tables::{KeyColumn, OwnedTable};

/// The tables of the feature, in the order in which it locks their rows.
pub const OWNERS_HOOK: StoreHook = StoreHook {
    on_event: Some(hook::act_on_event),
    ..StoreHook::with_tables(
        crate::NAME,
        &[
            OwnedTable { app: Some("app"), ..OwnedTable::new("owner_apps") },
            OwnedTable { app: Some("app"), counted_bytes: Some("size"), ..OwnedTable::new("owner_files") },
            OwnedTable {
                key: &[KeyColumn::Value("group_id")],
                app: Some("app"),
                ..OwnedTable::new("group_owners")
            },
        ],
    )
};
