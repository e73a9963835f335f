//! The reports that match a filter, as a part of statements: with the groups and images that other tables name.

use super::filter::{ReportFilter, push_filter};
use super::groups::GroupRows;
use super::images::ImageReports;
use super::row::{REPORT_COLUMNS, ReportRow};
use super::statement::moved::MovedReports;
use super::statement::sources::{DaysOf, FoundList, RowSource, read_sources};
use super::statement::windows::{DayWindow, PAGE_DAYS};
use super::text_search::find_by_text;
use crate::cursor::ReportCursor;
use crate::number::to_row;
use crate::{GroupId, Result, TenantTx};
use sqlx::{Postgres, QueryBuilder};
use time::OffsetDateTime;
use unslide_history::HistoryFilter;
use unslide_model::DebugId;

/// The most groups of which reports are looked up group by group. Of more groups, all reports are looked
/// through.
pub(super) const GROUPS_BY_INDEX_LIMIT: usize = 500;

/// Reads the newest matching reports.
pub(super) async fn read_newest(
    tx: &mut TenantTx,
    matching: &Matching<'_>,
    after: Option<&ReportCursor>,
    limit: usize,
    window: DayWindow,
) -> Result<FoundList<ReportRow>> {
    let limit = to_row(limit as u64);
    let select = format!("SELECT {REPORT_COLUMNS}");
    let filter = matching.filter;
    let days_of = match (&filter.app, &filter.version) {
        (Some(app), Some(version)) => DaysOf::Version { app, version },
        (Some(app), None) => DaysOf::App(app),
        (None, _) => DaysOf::Tenant,
    };
    let push_rows = Box::new(|query: &mut QueryBuilder<Postgres>, window: &DayWindow, table: &str| {
        query.push(&select);
        matching.push_newest(query, after, limit, window, table);
    });
    let moved = matching.list_searches(after);
    let source = RowSource { days_of, moved, ..RowSource::new("newest", limit, window, push_rows) };
    read_sources(tx, &mut [source], &|query| {
        query.push("SELECT * FROM newest");
    })
    .await
}

/// A filter with what other tables say of its conditions.
pub(super) struct Matching<'f> {
    pub(super) filter: &'f ReportFilter,
    /// The groups, merged or not, with the reports; `None` for all.
    pub(super) groups: Option<GroupRows>,
    image: Option<(DebugId, ImageReports)>,
    tenant: String,
}

impl<'f> Matching<'f> {
    pub(super) async fn find_for_filter(tx: &mut TenantTx, filter: &'f ReportFilter) -> Result<Matching<'f>> {
        let groups = find_groups(tx, filter).await?;
        let image = match filter.debug_id {
            Some(debug_id) => Some((debug_id, ImageReports::find_for_image(tx, debug_id).await?)),
            None => None,
        };
        Ok(Matching { filter, groups, image, tenant: tx.parts().1.to_owned() })
    }

    /// Returns the same with other conditions on the reports' own columns.
    pub(super) fn with_filter<'o>(&self, filter: &'o ReportFilter) -> Matching<'o> {
        let Matching { groups, image, tenant, .. } = self;
        Matching { filter, groups: groups.clone(), image: image.clone(), tenant: tenant.clone() }
    }

    pub(super) fn has_many_groups(&self) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.ids.len() > GROUPS_BY_INDEX_LIMIT)
    }

    /// Returns the groups if their reports are looked up group by group.
    pub(super) fn indexed_groups(&self) -> Option<&[GroupId]> {
        let groups = self.groups.as_ref().map(|groups| groups.ids.as_slice());
        groups.filter(|groups| (2..=GROUPS_BY_INDEX_LIMIT).contains(&groups.len()) && self.image.is_none())
    }

    /// Makes the window of the first reports behind a position.
    pub(super) fn make_window(
        &self,
        now: OffsetDateTime,
        after: Option<&ReportCursor>,
        limit: i64,
    ) -> DayWindow {
        let filter = self.filter;
        // An index finds these without their days.
        if self.image.is_some() || filter.same_crash_as.is_some() {
            return DayWindow::everything();
        }
        let to = after.map(|after| after.at).into_iter().chain(filter.to).min();
        match &self.groups {
            Some(groups) => groups.make_window(to, filter.from, limit),
            None => DayWindow::before(to.map_or(now, |to| to.min(now)), filter.from, PAGE_DAYS),
        }
    }

    /// Returns the searches for matching reports in ClickHouse.
    fn list_searches(&self, after: Option<&ReportCursor>) -> Vec<MovedReports<'_>> {
        let after = after.copied().map(ReportCursor::to_history_place);
        let groups = self.groups.as_ref().map(|groups| groups.ids.iter().map(|id| id.uuid()).collect());
        let filter = HistoryFilter { groups, ..self.filter.to_history_filter() };
        match &self.image {
            Some((debug_id, image)) => image.list_searches(&self.tenant, *debug_id, &filter, after),
            None => vec![MovedReports::for_filter(filter, after)],
        }
    }

    /// Adds the newest matching reports behind a position, from the clause FROM on.
    pub(super) fn push_newest(
        &self,
        query: &mut QueryBuilder<Postgres>,
        after: Option<&ReportCursor>,
        limit: i64,
        window: &DayWindow,
        table: &str,
    ) {
        match self.indexed_groups() {
            Some(groups) => self.push_by_group(query, groups, after, limit, window, table),
            None => {
                let key = self.push(query, window, table);
                push_page(query, key, after, limit);
            }
        }
    }

    /// Adds the newest of each group, by the index, and the newest of these: the cost does not depend on the number of a group's
    /// reports.
    fn push_by_group(
        &self,
        query: &mut QueryBuilder<Postgres>,
        groups: &[GroupId],
        after: Option<&ReportCursor>,
        limit: i64,
        window: &DayWindow,
        table: &str,
    ) {
        query.push(" FROM unnest(").push_bind(groups.to_vec());
        query.push(format!(") AS n (id) CROSS JOIN LATERAL (SELECT * FROM {table} r WHERE r.tenant = "));
        query.push_bind(self.tenant.clone()).push(" AND r.group_id = n.id");
        window.push(query, "r");
        push_filter(query, "r", self.filter);
        push_page(query, "r", after, limit);
        query.push(") r");
        push_order(query, "r", limit);
    }

    /// Adds all matching reports, from the clause FROM on. Returns the alias of the table that gives their order.
    pub(super) fn push(
        &self,
        query: &mut QueryBuilder<Postgres>,
        window: &DayWindow,
        table: &str,
    ) -> &'static str {
        let tenant = &self.tenant;
        // The order has to come from the table that the list is driven by.
        let key = match &self.image {
            None => {
                query.push(format!(" FROM {table} r WHERE r.tenant = ")).push_bind(tenant.clone());
                window.push(query, "r");
                "r"
            }
            Some((debug_id, image)) if image.system.is_empty() => {
                ImageReports::push_waits(query, tenant, *debug_id, table);
                "w"
            }
            Some((debug_id, image)) if !image.waits => {
                image.push_system(query, tenant, *debug_id, table);
                "r"
            }
            // A report may list a system image as its app's.
            Some((debug_id, image)) => {
                query.push(" FROM (SELECT r.*");
                ImageReports::push_waits(query, tenant, *debug_id, table);
                query.push(" UNION ALL SELECT r.*");
                image.push_system(query, tenant, *debug_id, table);
                query.push(
                    " AND NOT EXISTS (SELECT FROM waits w WHERE w.tenant = r.tenant AND w.received_at = r.received_at \
                     AND w.report_id = r.report_id AND w.variant = r.variant AND w.debug_id = ",
                );
                query.push_bind(debug_id.uuid()).push(")) r WHERE true");
                "r"
            }
        };
        match self.groups.as_ref().map(|groups| groups.ids.as_slice()) {
            None => {}
            // By the index, in its order.
            Some([group]) => {
                query.push(" AND r.group_id = ").push_bind(*group);
            }
            Some(groups) => {
                query.push(" AND r.group_id = ANY (").push_bind(groups.to_vec()).push(")");
            }
        }
        push_filter(query, key, self.filter);
        key
    }
}

/// Restricts a query to the rows after a position in the list, and limits their number.
pub(super) fn push_page(
    query: &mut QueryBuilder<Postgres>,
    key: &str,
    after: Option<&ReportCursor>,
    limit: i64,
) {
    if let Some(cursor) = after {
        // The time alone once more: by it the days that are over are left out.
        query.push(" AND ").push(key).push(".received_at <= ").push_bind(cursor.at);
        query.push(format!(" AND ({key}.received_at, {key}.report_id, {key}.variant) < ("));
        query.push_bind(cursor.at).push(", ").push_bind(cursor.report_id);
        query.push(", ").push_bind(cursor.variant).push(")");
    }
    push_order(query, key, limit);
}

fn push_order(query: &mut QueryBuilder<Postgres>, key: &str, limit: i64) {
    query.push(format!(" ORDER BY {key}.received_at DESC, {key}.report_id DESC, {key}.variant DESC LIMIT "));
    query.push_bind(limit);
}

/// Returns the groups, merged or not, with the requested reports; `None` for all.
async fn find_groups(tx: &mut TenantTx, filter: &ReportFilter) -> Result<Option<GroupRows>> {
    let of_group = match filter.group {
        Some(group) => Some(GroupRows::find_for_group(tx, group).await?),
        None => None,
    };
    let Some(text) = &filter.text else { return Ok(of_group) };
    let mut ids = find_by_text(tx, text).await?;
    ids.retain(|id| of_group.as_ref().is_none_or(|groups| groups.ids.contains(id)));
    Ok(Some(GroupRows { ids, days: of_group.and_then(|groups| groups.days) }))
}
