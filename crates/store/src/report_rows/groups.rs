//! A group with those that are merged into it, and the days on which their reports arrived.

use super::statement::windows::{CountedDay, DayWindow};
use crate::segments::utc_day;
use crate::{GroupId, Result, TenantTx};
use time::OffsetDateTime;
use unslide_history::HistoryFilter;

/// The groups, merged or not, that have the reports of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupRows {
    pub(crate) ids: Vec<GroupId>,
    /// The days of their reports, the newest first. `None` if they are not known.
    pub(crate) days: Option<Vec<CountedDay>>,
}

impl GroupRows {
    /// Finds a group, or the one that replaced it, with those that are merged into it.
    pub(crate) async fn find_for_group(tx: &mut TenantTx, id: GroupId) -> Result<GroupRows> {
        let (connection, tenant, _) = tx.parts();
        let row = sqlx::query!(
            r#"WITH asked AS (SELECT coalesce((SELECT target FROM group_redirects WHERE tenant = $1 AND id = $2), $2) AS id),
                    members AS MATERIALIZED (
                        SELECT g.id FROM asked JOIN groups g ON g.tenant = $1 AND g.merged_into = asked.id
                        UNION ALL SELECT id FROM asked),
                    days AS MATERIALIZED (
                        SELECT c.day, sum(c.reports)::bigint AS reports
                        FROM members m CROSS JOIN LATERAL (
                            SELECT n.day, n.reports FROM group_day_counts n WHERE n.tenant = $1 AND n.group_id = m.id) c
                        GROUP BY c.day)
               SELECT ARRAY (SELECT id FROM members) AS "ids!: Vec<GroupId>",
                      ARRAY (SELECT day FROM days ORDER BY day DESC) AS "days!",
                      ARRAY (SELECT reports FROM days ORDER BY day DESC) AS "reports!""#,
            tenant,
            id as GroupId
        )
        .fetch_one(connection)
        .await?;
        let days = row.days.into_iter().zip(row.reports).map(|(day, reports)| CountedDay { day, reports });
        Ok(GroupRows { ids: row.ids, days: Some(days.collect()) })
    }

    /// Returns the condition that ClickHouse decides.
    pub(super) fn to_history_filter(&self) -> HistoryFilter {
        HistoryFilter {
            groups: Some(self.ids.iter().map(|id| id.uuid()).collect()),
            ..HistoryFilter::default()
        }
    }

    /// Makes the window of the newest reports before a time.
    pub(super) fn make_window(
        &self,
        to: Option<OffsetDateTime>,
        from: Option<OffsetDateTime>,
        limit: i64,
    ) -> DayWindow {
        let Some(days) = &self.days else { return DayWindow::everything() };
        let last = to.map(utc_day);
        let first = days.iter().position(|one| last.is_none_or(|last| one.day <= last));
        DayWindow::for_days(&days[first.unwrap_or(days.len())..], from, limit)
    }
}
