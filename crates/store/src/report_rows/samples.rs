//! Samples: statements over the newest reports of something, for features that count what these say.

use super::groups::GroupRows;
use super::images::push_behind;
use super::statement::moved::MovedReports;
use super::statement::sources::{DaysOf, PushSelect, RowSource, read_sources};
use super::statement::windows::{DayWindow, SAMPLE_DAYS};
use crate::column::{ReportIdColumn, U32};
use crate::events::ReportPlace;
use crate::number::to_row32;
use crate::segments::utc_day;
use crate::{GroupId, Result, TenantTx, Uuid};
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Postgres, QueryBuilder};
use time::OffsetDateTime;
use unslide_history::{HistoryFilter, HistoryPlace};
use unslide_model::ReportId;

/// Rows of one sample that are read from ClickHouse at most, and only if PostgreSQL has fewer: each is a value of the statement.
const MOVED_ROWS_LIMIT: u16 = 1_000;

/// The order of lists: the newest first.
const NEWEST_FIRST: &str = "received_at DESC, report_id DESC, variant DESC";

/// The reports of a sample.
#[derive(Clone, Copy, Debug)]
pub enum SampleScope<'s> {
    /// Those of the tenant.
    Tenant,
    /// Those of an app.
    App(&'s str),
    /// Those of a version of an app.
    Version {
        /// The app.
        app: &'s str,
        /// The version.
        version: &'s str,
    },
    /// Those of a group and of the groups that are merged into it.
    Group(GroupId),
    /// These, whatever the limit is.
    Places(&'s [ReportPlace]),
}

/// The newest reports of something, as a table of a statement. Beside its columns the table has `received_at`, `report_id` and
/// `variant`, and it is in the order of a list.
#[derive(Clone, Debug)]
pub struct ReportSample<'s> {
    /// The table's name.
    pub name: &'static str,
    /// Expressions over the report `r`, with their names.
    pub columns: &'static str,
    /// The reports to choose from.
    pub scope: SampleScope<'s>,
    /// A condition on the report `r`; empty for none.
    pub condition: &'static str,
    /// Only those that arrived at this time or later.
    pub from: Option<OffsetDateTime>,
    /// The most reports.
    pub limit: i64,
}

impl<'s> ReportSample<'s> {
    /// Makes the sample `newest` of all reports of a scope.
    #[must_use]
    pub fn new(scope: SampleScope<'s>, columns: &'static str, limit: i64) -> ReportSample<'s> {
        ReportSample { name: "newest", columns, scope, condition: "", from: None, limit }
    }

    fn make_window(&self, now: OffsetDateTime) -> DayWindow {
        match self.scope {
            SampleScope::Tenant
            | SampleScope::App(_)
            | SampleScope::Version { .. }
            | SampleScope::Group(_) => DayWindow::before(now, self.from, SAMPLE_DAYS),
            SampleScope::Places(places) => {
                let days = places.iter().map(|place| utc_day(place.received_at)).collect();
                DayWindow::for_dates(days)
            }
        }
    }

    /// Returns the searches for rows in ClickHouse. Without a history no statement is sent.
    async fn find_moved(&self, tx: &mut TenantTx) -> Result<Vec<MovedReports<'s>>> {
        if tx.history().is_none() {
            return Ok(Vec::new());
        }
        let every = HistoryFilter { from: self.from, ..HistoryFilter::default() };
        let filter = match self.scope {
            SampleScope::Tenant => every,
            SampleScope::App(app) => HistoryFilter { app: Some(app.to_owned()), ..every },
            SampleScope::Version { app, version } => {
                HistoryFilter { app: Some(app.to_owned()), version: Some(version.to_owned()), ..every }
            }
            SampleScope::Group(group) => {
                let groups = GroupRows::find_for_group(tx, group).await?;
                HistoryFilter { from: self.from, ..groups.to_history_filter() }
            }
            SampleScope::Places(places) => {
                let tenant = tx.parts().1.to_owned();
                let push_keys =
                    move |query: &mut QueryBuilder<Postgres>, after: Option<&HistoryPlace>, limit: i64| {
                        push_moved_places(query, &tenant, places, after, limit);
                    };
                return Ok(vec![MovedReports::for_keys(Box::new(push_keys), None)]);
            }
        };
        Ok(vec![MovedReports::for_filter(filter, None)])
    }

    fn into_source(self, tenant: &str, now: OffsetDateTime, moved: Vec<MovedReports<'s>>) -> RowSource<'s> {
        let days_of = match self.scope {
            SampleScope::App(app) => DaysOf::App(app),
            SampleScope::Version { app, version } => DaysOf::Version { app, version },
            SampleScope::Group(group) => DaysOf::Group(group),
            _ => DaysOf::Tenant,
        };
        let (window, tenant) = (self.make_window(now), tenant.to_owned());
        // The rows that the source has at most: with as many no older one is missing.
        let limit = match self.scope {
            SampleScope::Places(places) => i64::try_from(places.len()).unwrap_or(i64::MAX),
            _ => self.limit,
        };
        let name = self.name;
        let push_rows =
            Box::new(move |query: &mut QueryBuilder<Postgres>, window: &DayWindow, table: &str| {
                self.push_rows(query, &tenant, window, table);
            });
        let source = RowSource::new(name, limit, window, push_rows);
        RowSource {
            days_of,
            moved,
            moved_below: MOVED_ROWS_LIMIT.into(),
            documents_limit: MOVED_ROWS_LIMIT.into(),
            ..source
        }
    }

    fn push_rows(&self, query: &mut QueryBuilder<Postgres>, tenant: &str, window: &DayWindow, table: &str) {
        match self.scope {
            SampleScope::Tenant => self.push_newest(query, tenant, window, table, |_| {}),
            SampleScope::App(app) => self.push_newest(query, tenant, window, table, |query| {
                query.push(" AND r.app = ").push_bind(app.replace('\0', ""));
            }),
            SampleScope::Version { app, version } => {
                self.push_newest(query, tenant, window, table, |query| {
                    query.push(" AND r.app = ").push_bind(app.replace('\0', ""));
                    query.push(" AND r.version = ").push_bind(version.replace('\0', ""));
                });
            }
            SampleScope::Group(group) => {
                query.push("SELECT n.* FROM (SELECT ").push_bind(group);
                query.push(" AS id UNION ALL SELECT m.id FROM groups m WHERE m.tenant = ");
                query.push_bind(tenant.to_owned()).push(" AND m.merged_into = ").push_bind(group);
                self.push_of_each_group(query, tenant, window, table);
            }
            SampleScope::Places(places) => {
                query.push("SELECT n.* FROM unnest(");
                query.push_bind(places.iter().map(|place| place.received_at).collect::<Vec<_>>()).push(", ");
                query.push_bind(places.iter().map(|place| place.id.uuid()).collect::<Vec<Uuid>>()).push(", ");
                query.push_bind(places.iter().map(|place| to_row32(place.variant)).collect::<Vec<_>>());
                query.push(") AS p (received_at, report_id, variant) CROSS JOIN LATERAL (");
                self.push_select(query, tenant, window, table);
                // The LIMIT of one keeps each report to one look-up.
                query.push(
                    " AND r.received_at = p.received_at AND r.report_id = p.report_id AND r.variant = p.variant LIMIT 1) n",
                );
            }
        }
    }

    fn push_select(&self, query: &mut QueryBuilder<Postgres>, tenant: &str, window: &DayWindow, table: &str) {
        query.push(format!(
            "SELECT {}, r.received_at, r.report_id, r.variant FROM {table} r WHERE r.tenant = ",
            self.columns
        ));
        query.push_bind(tenant.to_owned());
        window.push(query, "r");
        if let Some(from) = self.from {
            query.push(" AND r.received_at >= ").push_bind(from);
        }
        if !self.condition.is_empty() {
            query.push(" AND ").push(self.condition);
        }
    }

    /// Adds the newest reports that an index finds, in its order.
    fn push_newest(
        &self,
        query: &mut QueryBuilder<Postgres>,
        tenant: &str,
        window: &DayWindow,
        table: &str,
        push_condition: impl Fn(&mut QueryBuilder<Postgres>),
    ) {
        self.push_select(query, tenant, window, table);
        push_condition(query);
        query.push(format!(
            " ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT {}",
            self.limit
        ));
    }

    /// Adds the newest of each group, by the index, and the newest of these: behind a list of groups with their ids.
    fn push_of_each_group(
        &self,
        query: &mut QueryBuilder<Postgres>,
        tenant: &str,
        window: &DayWindow,
        table: &str,
    ) {
        query.push(") g CROSS JOIN LATERAL (");
        self.push_newest(query, tenant, window, table, |query| {
            query.push(" AND r.group_id = g.id");
        });
        query.push(format!(") n ORDER BY n.{} LIMIT {}", NEWEST_FIRST.replace(", ", ", n."), self.limit));
    }
}

/// Adds a statement that lists keys of those of these reports that are in ClickHouse, behind a place.
fn push_moved_places(
    query: &mut QueryBuilder<Postgres>,
    tenant: &str,
    places: &[ReportPlace],
    after: Option<&HistoryPlace>,
    limit: i64,
) {
    query.push("SELECT k.received_at, k.report_id, k.variant, k.history_version FROM unnest(");
    query.push_bind(places.iter().map(|place| place.id.uuid()).collect::<Vec<Uuid>>()).push(", ");
    query.push_bind(places.iter().map(|place| to_row32(place.variant)).collect::<Vec<_>>());
    query.push(
        ") AS p (report_id, variant) JOIN report_keys k ON k.report_id = p.report_id AND k.variant = p.variant
         WHERE k.history_version IS NOT NULL AND k.deleted_at IS NULL AND k.tenant = ",
    );
    query.push_bind(tenant.to_owned());
    push_behind(query, "k", after);
    query.push(" ORDER BY k.received_at DESC, k.report_id DESC, k.variant DESC LIMIT ").push_bind(limit);
}

/// Reads what a statement says of the newest reports of something: `push_select` adds it, in which each sample is a table. The
/// statement may run again over more days, with the same values.
pub async fn read_samples<'s, T>(
    tx: &mut TenantTx,
    samples: impl IntoIterator<Item = ReportSample<'s>>,
    push_select: PushSelect<'_>,
) -> Result<Vec<T>>
where
    T: for<'r> FromRow<'r, PgRow>,
{
    let samples: Vec<ReportSample<'s>> = samples.into_iter().collect();
    let mut sources: Vec<RowSource<'s>> = Vec::with_capacity(samples.len());
    for sample in samples {
        let moved = sample.find_moved(tx).await?;
        let (_, tenant, now) = tx.parts();
        sources.push(sample.into_source(tenant, now, moved));
    }
    Ok(read_sources(tx, &mut sources, push_select).await?.rows)
}

/// Reads what a statement says of the newest reports of groups that were found before.
pub(crate) async fn read_group_sample<T>(
    tx: &mut TenantTx,
    groups: &GroupRows,
    columns: &'static str,
    limit: i64,
    push_select: PushSelect<'_>,
) -> Result<Vec<T>>
where
    T: for<'r> FromRow<'r, PgRow>,
{
    let sample = ReportSample::new(SampleScope::Tenant, columns, limit);
    let (window, tenant) = (groups.make_window(None, None, limit), tx.parts().1.to_owned());
    let push_rows = Box::new(|query: &mut QueryBuilder<Postgres>, window: &DayWindow, table: &str| {
        query.push("SELECT n.* FROM (SELECT unnest(").push_bind(groups.ids.clone()).push(") AS id");
        sample.push_of_each_group(query, &tenant, window, table);
    });
    let moved = vec![MovedReports::for_filter(groups.to_history_filter(), None)];
    let source = RowSource { moved, ..RowSource::new("newest", limit, window, push_rows) };
    Ok(read_sources(tx, &mut [source], push_select).await?.rows)
}

/// A stored report and its group.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct GroupedReport {
    /// The report.
    #[sqlx(try_from = "ReportIdColumn")]
    pub report_id: ReportId,
    /// Which of those with this id.
    #[sqlx(try_from = "U32")]
    pub variant: u32,
    /// Its app.
    pub app: String,
    /// The group of its own fingerprint, which may be merged into another one.
    #[sqlx(rename = "group_id")]
    pub group: Option<GroupId>,
}

/// Returns the newest stored reports.
pub async fn list_newest_reports(tx: &mut TenantTx, limit: u32) -> Result<Vec<GroupedReport>> {
    let sample = ReportSample::new(SampleScope::Tenant, "r.app, r.group_id", i64::from(limit));
    read_samples(tx, [sample], &|query| {
        query.push("SELECT report_id, variant, app, group_id FROM newest");
    })
    .await
}
