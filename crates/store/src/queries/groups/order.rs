//! The orders of lists of groups.

use super::ListedGroup;
use crate::{GroupId, Result, TenantTx};
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
    pub fn position(self, group: &ListedGroup) -> (i64, GroupId) {
        let value = match self {
            GroupOrder::LastSeen => crate::outbox::to_micros(group.last_seen),
            GroupOrder::FirstSeen => crate::outbox::to_micros(group.first_seen),
            GroupOrder::Reports => group.reports,
        };
        (value, group.id)
    }
}

/// Returns the group with the most reports of these, or the one that replaced it; `None` if none exists. With
/// `app`, only groups of that app.
pub async fn find_most_reports(
    tx: &mut TenantTx,
    ids: &[GroupId],
    app: Option<&str>,
) -> Result<Option<GroupId>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT g.id AS "id!: GroupId" FROM unnest($2::uuid[]) AS n (id)
         LEFT JOIN group_redirects r ON r.tenant = $1 AND r.id = n.id
         JOIN groups g ON g.tenant = $1 AND g.id = coalesce(r.target, n.id)
         WHERE $3::text IS NULL OR g.app = $3
         ORDER BY g.merged_into IS NULL DESC, g.reports DESC, g.id LIMIT 1"#,
        tenant,
        ids as &[GroupId],
        app
    )
    .fetch_optional(connection)
    .await?)
}
