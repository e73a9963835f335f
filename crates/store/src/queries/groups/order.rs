//! The orders of lists of groups.

use super::ListedGroup;
use crate::Uuid;
use unslide_model::timestamp;

/// The value by which a list of groups is ordered, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupOrder {
    /// When the last report arrived.
    #[default]
    LastSeen,
    /// When the first report arrived.
    FirstSeen,
    /// The number of reports.
    Reports,
}

impl GroupOrder {
    pub(super) fn column(self) -> &'static str {
        match self {
            GroupOrder::LastSeen => "g.last_seen",
            GroupOrder::FirstSeen => "g.first_seen",
            GroupOrder::Reports => "g.reports",
        }
    }

    /// Returns true if a group can have `value` in a list of this order.
    #[must_use]
    pub fn can_have_value(self, value: i64) -> bool {
        matches!(self, GroupOrder::Reports) || timestamp::from_micros(value).is_some()
    }

    /// Returns the place of a group in a list of this order: microseconds or reports, and its id.
    #[must_use]
    pub fn position(self, group: &ListedGroup) -> (i64, Uuid) {
        let value = match self {
            GroupOrder::LastSeen => crate::outbox::to_micros(group.last_seen),
            GroupOrder::FirstSeen => crate::outbox::to_micros(group.first_seen),
            GroupOrder::Reports => group.reports,
        };
        (value, group.id)
    }
}
