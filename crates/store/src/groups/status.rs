//! The status of a group, and changes that a team makes to it.

use crate::column::words;
use time::OffsetDateTime;
use utoipa::ToSchema;

words! {
    /// Whether a group needs attention.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum GroupStatus {
        /// The group needs attention, and was never resolved or was opened again.
        Open = "open",
        /// It was resolved, and a new report brought it back.
        Regressed = "regressed",
        /// It was resolved, and has not come back.
        Resolved = "resolved",
        /// It is of no interest, until what it is ignored until; without that, new reports do not change it.
        Ignored = "ignored",
    }
}

/// The conditions that open an ignored group again: the first one that holds. Without any it stays ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoreLimits {
    /// This time has come.
    pub until: Option<OffsetDateTime>,
    /// It has this many reports more than now.
    pub more_reports: Option<u32>,
    /// It has this many devices more than now.
    pub more_devices: Option<u32>,
    /// It has a report of a version after the newest one of its app.
    pub until_next_version: bool,
}

/// A change of a group's state. A field that is `None` does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupUpdate {
    /// Its status. Only reports set [`GroupStatus::Regressed`]; here it means open.
    pub status: Option<GroupStatus>,
    /// The version that resolves it; matters with [`GroupStatus::Resolved`] only.
    pub resolved_in: Option<String>,
    /// True if the version after the newest one of its app resolves it; matters with [`GroupStatus::Resolved`]
    /// only.
    pub resolved_in_next: bool,
    /// Matters with [`GroupStatus::Ignored`] only.
    pub ignore: IgnoreLimits,
    /// The name of the person who works on it; an empty text is none.
    pub assignee: Option<String>,
    /// The address of its ticket; an empty text is none.
    pub ticket_url: Option<String>,
    /// True to take back the newest change by a person instead, unless a report or the clock changed it since.
    pub undo: bool,
}

impl GroupUpdate {
    /// Returns true if the newest version of the group's app is a part of the change.
    #[must_use]
    pub fn needs_newest_version(&self) -> bool {
        self.resolved_in_next || self.ignore.until_next_version
    }
}
