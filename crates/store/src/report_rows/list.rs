//! Lists of reports by the values that they state, newest first, a page at a time.

use super::filter::{ReportFilter, push_filter};
use super::groups::GroupRows;
use super::images::ImageReports;
use super::row::{REPORT_COLUMNS, ReportPage, ReportRow};
use super::scan::{ScanBudget, scan_reports};
use super::sources::{DaysOf, Source, read_sources};
use super::windows::{PAGE_DAYS, Window};
use crate::cursor::ReportCursor;
use crate::number::to_row;
use crate::queries::groups::found_by;
use crate::{GroupId, Result, TenantTx};
use sqlx::{Postgres, QueryBuilder};
use time::OffsetDateTime;
use unslide_model::DebugId;

/// The most groups of which reports are looked up group by group. Of more groups, all reports are looked
/// through.
pub(super) const GROUPS_BY_INDEX_LIMIT: usize = 500;

/// Lists the matching reports, newest first. A page of conditions that no index decides ends after two seconds: then it may have
/// fewer than `limit` entries, and says how far it searched.
pub async fn list_reports(
    tx: &mut TenantTx,
    filter: &ReportFilter,
    after: Option<&ReportCursor>,
    limit: u32,
) -> Result<ReportPage> {
    list_within(tx, filter, after, limit, ScanBudget::DEFAULT).await
}

/// Lists reports as [`list_reports`] does, with another budget.
pub(crate) async fn list_within(
    tx: &mut TenantTx,
    filter: &ReportFilter,
    after: Option<&ReportCursor>,
    limit: u32,
    budget: ScanBudget,
) -> Result<ReportPage> {
    let matching = Matching::find_for_filter(tx, filter).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX - 1);
    if filter.is_indexed() && !matching.has_many_groups() {
        let window = matching.make_window(tx.now(), after, to_row(limit as u64 + 1));
        let found = read_newest(tx, &matching, after, limit + 1, window).await?;
        return Ok(ReportPage::from_rows(found, limit));
    }
    scan_reports(tx, &matching, after, limit, budget).await
}

/// Reads the newest matching reports.
pub(super) async fn read_newest(
    tx: &mut TenantTx,
    matching: &Matching<'_>,
    after: Option<&ReportCursor>,
    limit: usize,
    window: Window,
) -> Result<Vec<ReportRow>> {
    let limit = to_row(limit as u64);
    let select = format!("SELECT {REPORT_COLUMNS}");
    let filter = matching.filter;
    let days_of = match (&filter.app, &filter.version) {
        (Some(app), Some(version)) => DaysOf::Version { app, version },
        (Some(app), None) => DaysOf::App(app),
        (None, _) => DaysOf::Tenant,
    };
    let push_rows = Box::new(|query: &mut QueryBuilder<Postgres>, window: &Window| {
        query.push(&select);
        matching.push_newest(query, after, limit, window);
    });
    let source = Source { name: "newest", limit, window, days_of, push_rows };
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
    fn make_window(&self, now: OffsetDateTime, after: Option<&ReportCursor>, limit: i64) -> Window {
        let filter = self.filter;
        // An index finds these without their days.
        if self.image.is_some() || filter.same_crash_as.is_some() {
            return Window::everything();
        }
        let to = after.map(|after| after.at).into_iter().chain(filter.to).min();
        match &self.groups {
            Some(groups) => groups.make_window(to, filter.from, limit),
            None => Window::before(to.map_or(now, |to| to.min(now)), filter.from, PAGE_DAYS),
        }
    }

    /// Adds the newest matching reports behind a position, from the clause FROM on.
    pub(super) fn push_newest(
        &self,
        query: &mut QueryBuilder<Postgres>,
        after: Option<&ReportCursor>,
        limit: i64,
        window: &Window,
    ) {
        match self.indexed_groups() {
            Some(groups) => self.push_by_group(query, groups, after, limit, window),
            None => {
                let key = self.push(query, window);
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
        window: &Window,
    ) {
        query.push(" FROM unnest(").push_bind(groups.to_vec());
        query.push(") AS n (id) CROSS JOIN LATERAL (SELECT * FROM reports r WHERE r.tenant = ");
        query.push_bind(self.tenant.clone()).push(" AND r.group_id = n.id");
        window.push(query, "r");
        push_filter(query, "r", self.filter);
        push_page(query, "r", after, limit);
        query.push(") r");
        push_order(query, "r", limit);
    }

    /// Adds all matching reports, from the clause FROM on. Returns the alias of the table that gives their order.
    pub(super) fn push(&self, query: &mut QueryBuilder<Postgres>, window: &Window) -> &'static str {
        let tenant = &self.tenant;
        // The order has to come from the table that the list is driven by.
        let key = match &self.image {
            None => {
                query.push(" FROM reports r WHERE r.tenant = ").push_bind(tenant.clone());
                window.push(query, "r");
                "r"
            }
            Some((debug_id, image)) if image.system.is_empty() => {
                ImageReports::push_waits(query, tenant, *debug_id);
                "w"
            }
            Some((debug_id, image)) if !image.waits => {
                image.push_system(query, tenant, *debug_id);
                "r"
            }
            // A report may list a system image as its app's.
            Some((debug_id, image)) => {
                query.push(" FROM (SELECT r.*");
                ImageReports::push_waits(query, tenant, *debug_id);
                query.push(" UNION ALL SELECT r.*");
                image.push_system(query, tenant, *debug_id);
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

/// Counts the matching reports.
pub async fn count_reports(tx: &mut TenantTx, filter: &ReportFilter) -> Result<u64> {
    let matching = Matching::find_for_filter(tx, filter).await?;
    let mut query = QueryBuilder::<Postgres>::new("SELECT count(*)");
    matching.push(&mut query, &Window::everything());
    let count: i64 = query.build_query_scalar().fetch_one(tx.parts().0).await?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Explains how the database would count them.
#[cfg(test)]
pub(crate) async fn explain(tx: &mut TenantTx, filter: &ReportFilter) -> Result<Vec<String>> {
    let matching = Matching::find_for_filter(tx, filter).await?;
    let mut query = QueryBuilder::<Postgres>::new("EXPLAIN (COSTS off) SELECT count(*)");
    matching.push(&mut query, &Window::everything());
    Ok(query.build_query_scalar().fetch_all(tx.parts().0).await?)
}

/// Returns the groups, merged or not, with the requested reports; `None` for all.
async fn find_groups(tx: &mut TenantTx, filter: &ReportFilter) -> Result<Option<GroupRows>> {
    let of_group = match filter.group {
        Some(group) => Some(GroupRows::find_for_group(tx, group).await?),
        None => None,
    };
    let Some(text) = &filter.text else { return Ok(of_group) };
    let mut ids = found_by(tx, text).await?;
    ids.retain(|id| of_group.as_ref().is_none_or(|groups| groups.ids.contains(id)));
    Ok(Some(GroupRows { ids, days: of_group.and_then(|groups| groups.days) }))
}
