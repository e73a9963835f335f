//! Actions of a team on groups: state, assignee, comments and merges.

mod activity;
mod ignored;
pub mod labels;
mod merges;
mod redirects;
mod replace;
pub mod rules;
mod short_ids;
mod state;
mod state_row;
mod status;
pub mod views;

pub(crate) use activity::{Deed, record_actions};
pub use activity::{
    GroupAction, GroupActivity, GroupActor, add_comment, change_comment, list_activity, list_assignees,
};
pub(crate) use ignored::IGNORE_TIME_OVER;
pub use ignored::reopen_ignored;
pub(crate) use merges::refresh_totals;
pub use merges::{MAX_MERGED, MergeOutcome, merge_each, merge_groups, split_group};
pub(crate) use redirects::end_redirects;
pub use redirects::follow_redirects;
pub(crate) use replace::{GroupMove, REPORTS_ACTOR, record_moves, retire_empty};
pub use short_ids::find_short_ids;
pub(crate) use short_ids::name_groups;
pub use state::{UpdateOutcome, update_group, update_groups};
pub use status::{GroupStatus, GroupUpdate, IgnoreLimits};

use crate::{GroupId, Result, TenantTx, Uuid};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

/// A change of a group by reports. It is known in the transaction that stores the reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// The group has its first report, or its first since it was deleted or replaced.
    Created {
        /// The group.
        group: GroupId,
        /// Its app.
        app: String,
        /// Its title.
        title: String,
        /// The culprit: the function that caused the crash.
        culprit: String,
        /// The version of its first report.
        version: String,
        /// Symbols are missing: its reports will move to another group.
        provisional: bool,
        /// The groups that its reports came from.
        moved_from: Vec<GroupId>,
        /// When its first report arrived.
        received_at: OffsetDateTime,
    },
    /// The group was resolved, and a new report says that it was not.
    Regressed {
        /// The group.
        group: GroupId,
        /// Its app.
        app: String,
        /// Its title.
        title: String,
        /// The report's version.
        version: String,
        /// When the report arrived, or when a feature judged that the group came back.
        received_at: OffsetDateTime,
    },
    /// The group was ignored until it had more reports or devices, or until a time, and a new report found that
    /// this has come.
    Reopened {
        /// The group.
        group: GroupId,
        /// Its app.
        app: String,
        /// Its title.
        title: String,
        /// The report's version.
        version: String,
        /// The reason, such as `20 reports`.
        reason: String,
        /// When the report arrived.
        received_at: OffsetDateTime,
    },
}

impl GroupEvent {
    /// Returns the arrival time of the report that caused the event.
    #[must_use]
    pub fn received_at(&self) -> OffsetDateTime {
        match self {
            GroupEvent::Created { received_at, .. }
            | GroupEvent::Regressed { received_at, .. }
            | GroupEvent::Reopened { received_at, .. } => *received_at,
        }
    }
}

/// A new report says that a group is not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The resolved group.
    pub group: GroupId,
    /// Its app.
    pub app: String,
    /// The report's version.
    pub version: String,
    /// When the report arrived.
    pub received_at: OffsetDateTime,
}

/// Returns the id of the group of an app's reports with this fingerprint.
#[must_use]
pub fn id_of(app: &str, fingerprint: [u8; 16]) -> GroupId {
    let digest: [u8; 32] = Sha256::new().chain_update(fingerprint).chain_update(app).finalize().into();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    GroupId::from_uuid(Uuid::from_bytes(id))
}

/// Blocks merges until the transaction ends, so that the merges it reads stay valid. Call it before any row
/// is locked.
pub(crate) async fn lock_out_merges(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock_shared(hashtextextended('groups ' || $1, 0))")
        .bind(tenant)
        .execute(connection)
        .await?;
    Ok(())
}

/// Waits until all transactions that count reports have committed, and makes later ones wait: the counterpart
/// of [`lock_out_merges`].
pub(crate) async fn lock_for_merges(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('groups ' || $1, 0))")
        .bind(tenant)
        .execute(connection)
        .await?;
    Ok(())
}
