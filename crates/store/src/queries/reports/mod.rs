//! Lists of reports by the values that they state, newest first, a page at a time.

mod neighbours;
mod scan;
mod total;

pub use neighbours::find_neighbours;
pub(crate) use scan::ScanBudget;
pub use total::{ReportTotal, read_total};

use crate::column::{Nullable, ReportIdColumn, U32};
use crate::cursor::ReportCursor;
use crate::number::to_row;
use crate::reports::FrameTotals;
use crate::segments::day_bounds;
use crate::{GroupId, Result, TenantTx};
use serde::Serialize;
use sqlx::{FromRow, Postgres, QueryBuilder};
use time::OffsetDateTime;
use unslide_model::{DebugId, ReportId};
use utoipa::ToSchema;

/// Conditions on reports. A field that is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportFilter {
    /// Bundle identifier.
    pub app: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Build.
    pub build: Option<String>,
    /// Arrived at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Arrived before this time.
    pub to: Option<OffsetDateTime>,
    /// Crash type, such as `mach`.
    pub kind: Option<String>,
    /// `complete`, `partial` or `none`.
    pub status: Option<String>,
    /// It is a crash: the app did not survive it.
    pub fatal: Option<bool>,
    /// It is counted: no other report of the same crash is counted instead of it.
    pub counted: Option<bool>,
    /// An image of the app has no symbols, or every one has.
    pub symbols_missing: Option<bool>,
    /// The machine, such as `iPhone16,1`; empty for reports that name none.
    pub model: Option<String>,
    /// The operating system's version, with or without its name.
    pub os_version: Option<String>,
    /// A frame refers to this image.
    pub debug_id: Option<DebugId>,
    /// It is counted for this group, or for one that is merged into it.
    pub group: Option<GroupId>,
    /// Another report of the same crash, with this id, is counted instead of it.
    pub same_crash_as: Option<ReportId>,
    /// The app's own key with this name has this value, alone or among several with commas between them.
    pub key: Option<(String, String)>,
    /// A report of its group has this text in its title, its reason, or a function or file of its crash, in any case.
    /// Of more than 10,000 such groups those that were seen last count.
    pub text: Option<String>,
}

impl ReportFilter {
    /// Returns true if an index finds the reports that match, or nearly.
    fn is_indexed(&self) -> bool {
        self.split().1 == ReportFilter::default()
    }

    /// Splits conditions into those that an index decides, or nearly, and those that are compared report by report.
    fn split(&self) -> (ReportFilter, ReportFilter) {
        let mut compared = self.clone();
        let mut indexed = ReportFilter {
            app: compared.app.take(),
            from: compared.from.take(),
            to: compared.to.take(),
            debug_id: compared.debug_id.take(),
            group: compared.group.take(),
            same_crash_as: compared.same_crash_as.take(),
            text: compared.text.take(),
            ..ReportFilter::default()
        };
        // No index begins with the version.
        if indexed.app.is_some() || indexed.group.is_some() || indexed.debug_id.is_some() {
            indexed.version = compared.version.take();
        }
        (indexed, compared)
    }
}

/// A report in a list. Texts are the device's words.
#[derive(Clone, Debug, PartialEq, FromRow, Serialize, ToSchema)]
#[schema(as = ListedReport)]
pub struct ReportRow {
    /// Id of the report, from its `report.id`.
    #[sqlx(try_from = "ReportIdColumn")]
    #[serde(rename = "id")]
    #[schema(value_type = String, format = Uuid)]
    pub report_id: ReportId,
    /// 0, or its index among reports with the same id and other bytes.
    #[sqlx(try_from = "U32")]
    pub variant: u32,
    /// Its revision: 1 at first, one more with each better answer.
    #[sqlx(try_from = "U32")]
    pub revision: u32,
    /// When the service received it (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub received_at: OffsetDateTime,
    /// Bundle identifier of the app; empty if it is not known.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The app's version; empty if it is not known.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// The app's build number; empty if it is not known.
    pub build: String,
    /// The crash's type, such as `mach`; empty if it is not known.
    #[sqlx(rename = "type")]
    #[serde(rename = "type")]
    pub kind: String,
    /// `complete`, `partial` or `none`: how far symbolication got.
    pub status: String,
    /// When it crashed, by the device's clock.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub device_time: Option<OffsetDateTime>,
    /// Name of the operating system, such as `iOS`; absent if the report names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_name: Option<String>,
    /// Version of the operating system, such as `18.1`; absent if the report names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// The machine, such as `iPhone16,1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the crashed process; absent if the report names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The reason in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// More for a list: exception, signal, top frames.
    pub summary: serde_json::Value,
    /// Counts of its frames, by the source of their names.
    #[sqlx(flatten)]
    pub frames: FrameTotals,
    /// True if an image of the app has no symbols, or only those of a stripped binary. Its frames have the device's
    /// names or none: upload its dSYM.
    pub symbols_missing: bool,
    /// The group of its bug.
    #[sqlx(rename = "group_id")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub group: Option<GroupId>,
    /// Who tells of the crash: `corpse`, `handler`, `log` or `metric_kit`. Absent for reports of other events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "handler")]
    pub told_by: Option<String>,
    /// Id of the report of the same crash that is counted instead of this one, because it is better or came first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[sqlx(try_from = "Nullable<ReportIdColumn>")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub same_crash_as: Option<ReportId>,
    /// Weight: the number of reports that it represents and counts as. 1, or more if it was sampled.
    #[sqlx(try_from = "U32")]
    pub weight: u32,
    /// True if its body is not kept: its group had enough bodies of that day. The report counts as any other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = Option<bool>)]
    pub body_dropped: bool,
    /// Id of the report that was most like it, with a body, when its own body was dropped; absent if that one is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[sqlx(try_from = "Nullable<ReportIdColumn>")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub like_report: Option<ReportId>,
}

impl ReportRow {
    /// Returns true if the report has frames of the app, and all of them are symbolicated.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let FrameTotals { own, own_symbolicated, .. } = self.frames;
        own > 0 && own_symbolicated >= own && !self.symbols_missing
    }
}

/// A page of reports.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportPage {
    /// The reports, newest first.
    pub reports: Vec<ReportRow>,
    /// The position at which the next page begins; `None` on the last one.
    pub next: Option<ReportCursor>,
    /// Set if the page ended before it was full, because comparing the reports took long: all that arrived at this time or
    /// later were compared. The next page goes on from there.
    pub searched_to: Option<OffsetDateTime>,
}

impl ReportPage {
    /// Makes a page of these reports; one more than `limit` shows that there are more.
    fn from_rows(mut reports: Vec<ReportRow>, limit: usize) -> ReportPage {
        let more = reports.len() > limit;
        reports.truncate(limit);
        let last = reports.last().filter(|_| more);
        let next =
            last.map(|last| ReportCursor::after_report(last.received_at, last.report_id, last.variant));
        ReportPage { reports, next, searched_to: None }
    }
}

/// The most groups of which reports are looked up group by group. Of more groups, all reports are looked
/// through.
const GROUPS_BY_INDEX_LIMIT: usize = 500;

/// The app's own keys of a report.
const KEYS_COLUMN: &str = "(r.context -> 'keys')";

pub(super) const REPORT_COLUMNS: &str = "r.report_id, r.variant, r.revision, r.received_at, r.app, r.version, r.build, r.type, \
     r.status, r.device_time, r.os_name, r.os_version, r.model, r.process, r.reason, r.summary, r.frames_total, \
     r.frames_symbolicated, r.frames_device, r.frames_device_app, r.frames_missing, r.frames_own, r.frames_own_symbolicated, r.symbols_missing, r.same_crash_as, r.weight, \
     r.body_kept IS FALSE AS body_dropped, \
     CASE WHEN r.like_report IS NOT NULL AND EXISTS (SELECT FROM report_keys k WHERE k.tenant = r.tenant AND k.report_id = r.like_report \
         AND k.variant = r.like_variant AND k.deleted_at IS NULL) THEN r.like_report END AS like_report, \
     CASE WHEN r.fatal THEN coalesce(r.teller, CASE WHEN r.metric_kit THEN 'metric_kit' ELSE 'handler' END) END AS told_by, \
     coalesce((SELECT g.merged_into FROM groups g WHERE g.tenant = r.tenant AND g.id = r.group_id), r.group_id) AS group_id";

/// The days and waits by which the reports of an image are found.
struct ImageReports {
    /// Some have it as an image of their app: by its waits.
    waits: bool,
    /// Some may have it as a system image, on these days, as times from and to, in ascending order.
    system: Vec<(OffsetDateTime, OffsetDateTime)>,
}

impl ImageReports {
    async fn find_for_image(tx: &mut TenantTx, debug_id: DebugId) -> Result<ImageReports> {
        let (connection, tenant, _) = tx.parts();
        let row = sqlx::query!(
            r#"SELECT EXISTS (SELECT FROM waits WHERE tenant = $1 AND debug_id = $2) AS "waits!",
                      ARRAY (SELECT day FROM system_waits WHERE tenant = $1 AND debug_id = $2 ORDER BY day) AS "days!""#,
            tenant,
            debug_id.uuid()
        )
        .fetch_one(connection)
        .await?;
        let mut system: Vec<(OffsetDateTime, OffsetDateTime)> = Vec::new();
        for (from, to) in row.days.into_iter().map(day_bounds) {
            match system.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => system.push((from, to)),
            }
        }
        Ok(ImageReports { waits: row.waits, system })
    }

    /// Adds the rows of `waits` of the image, with their reports. The planner does not know how the two
    /// tables correlate, and would rather hash all reports; the LIMIT of one keeps it to one look-up a row,
    /// in the order of the waits.
    fn push_waits(query: &mut QueryBuilder<Postgres>, tenant: &str, debug_id: DebugId) {
        query.push(
            " FROM waits w CROSS JOIN LATERAL (SELECT * FROM reports o WHERE o.tenant = w.tenant \
             AND o.received_at = w.received_at AND o.report_id = w.report_id AND o.variant = w.variant LIMIT 1) r \
             WHERE w.tenant = ",
        );
        query.push_bind(tenant.to_owned()).push(" AND w.debug_id = ").push_bind(debug_id.uuid());
    }

    /// Adds the reports that have it as a system image: only reports of its days are read.
    fn push_system(&self, query: &mut QueryBuilder<Postgres>, tenant: &str, debug_id: DebugId) {
        query.push(" FROM reports r WHERE r.tenant = ").push_bind(tenant.to_owned());
        query.push(" AND r.system_images @> ARRAY[").push_bind(debug_id.uuid()).push("] AND (false");
        for (from, to) in &self.system {
            query.push(" OR r.received_at >= ").push_bind(*from);
            query.push(" AND r.received_at < ").push_bind(*to);
        }
        query.push(")");
    }
}

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
    let groups = find_groups(tx, filter).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX - 1);
    if filter.is_indexed() && groups.as_ref().is_none_or(|groups| groups.len() <= GROUPS_BY_INDEX_LIMIT) {
        let found = read_newest(tx, filter, groups.as_deref(), after, limit + 1).await?;
        return Ok(ReportPage::from_rows(found, limit));
    }
    scan::scan_reports(tx, filter, groups.as_deref(), after, limit, budget).await
}

/// Reads the newest matching reports of these groups.
async fn read_newest(
    tx: &mut TenantTx,
    filter: &ReportFilter,
    groups: Option<&[GroupId]>,
    after: Option<&ReportCursor>,
    limit: usize,
) -> Result<Vec<ReportRow>> {
    let limit = to_row(limit as u64);
    let apart = groups.filter(|groups| (2..=GROUPS_BY_INDEX_LIMIT).contains(&groups.len()));
    let select = format!("SELECT {REPORT_COLUMNS}");
    let mut query = match apart.filter(|_| filter.debug_id.is_none()) {
        Some(groups) => build_query_by_group(tx, &select, filter, groups, after, limit),
        None => {
            let (mut query, key) = build_matching_query(tx, &select, filter, groups).await?;
            push_page(&mut query, key, after, limit);
            query
        }
    };
    Ok(query.build_query_as().fetch_all(tx.parts().0).await?)
}

/// Builds the query for the newest of each group, by the index, and the newest of these: its cost does not
/// depend on the number of a group's reports.
fn build_query_by_group(
    tx: &mut TenantTx,
    select: &str,
    filter: &ReportFilter,
    groups: &[GroupId],
    after: Option<&ReportCursor>,
    limit: i64,
) -> QueryBuilder<Postgres> {
    let (_, tenant, _) = tx.parts();
    let mut query = QueryBuilder::<Postgres>::new(select);
    query.push(" FROM unnest(").push_bind(groups.to_vec());
    query.push(") AS n (id) CROSS JOIN LATERAL (SELECT * FROM reports r WHERE r.tenant = ");
    query.push_bind(tenant.to_owned()).push(" AND r.group_id = n.id");
    push_filter(&mut query, "r", filter);
    push_page(&mut query, "r", after, limit);
    query.push(") r");
    push_order(&mut query, "r", limit);
    query
}

/// Restricts a query to the rows after a position in the list, and limits their number.
fn push_page(query: &mut QueryBuilder<Postgres>, key: &str, after: Option<&ReportCursor>, limit: i64) {
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
    let groups = find_groups(tx, filter).await?;
    let (mut query, _) = build_matching_query(tx, "SELECT count(*)", filter, groups.as_deref()).await?;
    let count: i64 = query.build_query_scalar().fetch_one(tx.parts().0).await?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Explains how the database would count them.
#[cfg(test)]
pub(crate) async fn explain(tx: &mut TenantTx, filter: &ReportFilter) -> Result<Vec<String>> {
    let groups = find_groups(tx, filter).await?;
    let (mut query, _) =
        build_matching_query(tx, "EXPLAIN (COSTS off) SELECT count(*)", filter, groups.as_deref()).await?;
    Ok(query.build_query_scalar().fetch_all(tx.parts().0).await?)
}

/// Returns the groups, merged or not, with the requested reports; `None` for all.
async fn find_groups(tx: &mut TenantTx, filter: &ReportFilter) -> Result<Option<Vec<GroupId>>> {
    let of_group = match filter.group {
        Some(group) => Some(super::groups::with_merged(tx, group).await?),
        None => None,
    };
    let Some(text) = &filter.text else { return Ok(of_group) };
    let mut found = super::groups::found_by(tx, text).await?;
    found.retain(|id| of_group.as_ref().is_none_or(|groups| groups.contains(id)));
    Ok(Some(found))
}

/// Adds the conditions on the report's own columns. `key` is the table with its time.
fn push_filter(query: &mut QueryBuilder<Postgres>, key: &str, filter: &ReportFilter) {
    for (column, value) in [
        ("r.app", &filter.app),
        ("r.version", &filter.version),
        ("r.build", &filter.build),
        ("r.type", &filter.kind),
        ("r.status", &filter.status),
        ("coalesce(r.model, '')", &filter.model),
    ] {
        if let Some(value) = value {
            query.push(" AND ").push(column).push(" = ").push_bind(value.replace('\0', ""));
        }
    }
    if let Some(missing) = filter.symbols_missing {
        query.push(" AND r.symbols_missing = ").push_bind(missing);
    }
    if let Some(value) = &filter.os_version {
        let value = value.replace('\0', "");
        query.push(" AND (r.os_version = ").push_bind(value.clone());
        // As the breakdown of a group names it.
        query.push(" OR btrim(concat_ws(' ', r.os_name, r.os_version)) = ").push_bind(value).push(")");
    }
    if let Some(fatal) = filter.fatal {
        query.push(" AND r.fatal = ").push_bind(fatal);
    }
    if let Some(counted) = filter.counted {
        query.push(" AND (r.same_crash_as IS NULL) = ").push_bind(counted);
    }
    if let Some(counted) = filter.same_crash_as {
        query.push(" AND r.same_crash_as = ").push_bind(counted.uuid());
    }
    if let Some((name, value)) = &filter.key {
        let (name, value) = (name.replace('\0', ""), value.replace('\0', ""));
        query.push(" AND (").push(KEYS_COLUMN).push(" ->> ").push_bind(name.clone()).push(" = ");
        query.push_bind(value.clone()).push(" OR ").push_bind(value).push(" = ANY (string_to_array(");
        query.push(KEYS_COLUMN).push(" ->> ").push_bind(name).push(", ', ')))");
    }
    if let Some(from) = filter.from {
        query.push(" AND ").push(key).push(".received_at >= ").push_bind(from);
    }
    if let Some(to) = filter.to {
        query.push(" AND ").push(key).push(".received_at < ").push_bind(to);
    }
}

/// Builds the query `select` on the matching reports. Returns it with the alias of the table that gives their
/// order.
async fn build_matching_query(
    tx: &mut TenantTx,
    select: &str,
    filter: &ReportFilter,
    groups: Option<&[GroupId]>,
) -> Result<(QueryBuilder<Postgres>, &'static str)> {
    let image = match filter.debug_id {
        Some(debug_id) => Some((debug_id, ImageReports::find_for_image(tx, debug_id).await?)),
        None => None,
    };
    let (_, tenant, _) = tx.parts();
    let mut query = QueryBuilder::<Postgres>::new(select);
    // The order has to come from the table that the list is driven by.
    let key = match image {
        None => {
            query.push(" FROM reports r WHERE r.tenant = ").push_bind(tenant.to_owned());
            "r"
        }
        Some((debug_id, image)) if image.system.is_empty() => {
            ImageReports::push_waits(&mut query, tenant, debug_id);
            "w"
        }
        Some((debug_id, image)) if !image.waits => {
            image.push_system(&mut query, tenant, debug_id);
            "r"
        }
        // A report may list a system image as its app's.
        Some((debug_id, image)) => {
            query.push(" FROM (SELECT r.*");
            ImageReports::push_waits(&mut query, tenant, debug_id);
            query.push(" UNION ALL SELECT r.*");
            image.push_system(&mut query, tenant, debug_id);
            query.push(
                " AND NOT EXISTS (SELECT FROM waits w WHERE w.tenant = r.tenant AND w.received_at = r.received_at \
                 AND w.report_id = r.report_id AND w.variant = r.variant AND w.debug_id = ",
            );
            query.push_bind(debug_id.uuid()).push(")) r WHERE true");
            "r"
        }
    };
    match groups {
        None => {}
        // By the index, in its order.
        Some([group]) => {
            query.push(" AND r.group_id = ").push_bind(*group);
        }
        Some(groups) => {
            query.push(" AND r.group_id = ANY (").push_bind(groups.to_vec()).push(")");
        }
    }
    push_filter(&mut query, key, filter);
    Ok((query, key))
}
