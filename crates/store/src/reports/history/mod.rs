//! Rows of reports in ClickHouse: moving them there, bringing them back, finding and deleting them.
//!
//! A row is in `reports`, or its key has the version of it in ClickHouse. A move begins with an *intent*, then
//! one INSERT gives ClickHouse the rows, and one transaction deletes those that are still the same and sets the
//! versions. Every intent has a version of its own, so that the rows of a move that did not end are never those
//! of a key. They are deleted later, as is everything that no key names any more.
//!
//! A transaction that changes a report locks its key and brings its row back. So the rest of the store knows
//! rows of PostgreSQL only. What ClickHouse returns is shown only if a key under row-level security has its
//! version.

mod bring_back;
mod deletions;
mod finding;
mod moves;

pub(crate) use bring_back::{
    bring_back, bring_back_reports, read_moved, read_moved_locked, read_moved_of_id,
};
pub use bring_back::{bring_back_oldest, count_moved, list_moved, list_moved_tenants};
pub use deletions::{
    DeletionTenant, HistoryDeletion, HistoryExpiry, expire_moved, forget_deletions, forget_lost,
    list_deletion_tenants, lock_deletions, read_expiry, record_expiry,
};
pub use finding::MoveWatch;
pub(crate) use finding::{HistoryReport, HistorySearch, find_moved, merge_pages, read_moved_page};
pub use moves::{
    BegunMove, DueMove, MovedRows, MovingRow, abandon_moves, begin_move, finish_move, give_up_move, list_due,
    read_moved_rows, skip_versions,
};

use crate::{Result, StoreError, TenantTx};
use unslide_history::History;

/// Returns the client of ClickHouse for a report that has its row there.
///
/// # Errors
/// [`StoreError::NoHistory`] if the settings name none.
pub(crate) fn require_history(tx: &TenantTx) -> Result<History> {
    tx.history().cloned().ok_or(StoreError::NoHistory)
}
