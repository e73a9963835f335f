//! Groups of reports: one bug each.

pub mod context;
mod count;
mod detail;
pub mod growing;
mod order;
mod scope;
mod variants;

pub use count::count_groups;
pub use detail::{
    GroupCounts, GroupDay, GroupModel, GroupOsVersion, GroupShare, GroupVersion, MergedGroup, get,
};
pub use order::{GroupOrder, find_most_reports};
pub use scope::{CountScope, replace_counts};
pub use variants::GroupVariant;

use crate::groups::GroupStatus;
use crate::report_rows::find_by_text;
use crate::{GroupId, Result, TenantTx, Uuid};
use serde::Serialize;
use sqlx::{AssertSqlSafe, FromRow, Postgres, QueryBuilder};
use time::OffsetDateTime;
use utoipa::ToSchema;

/// The reports of one bug of an app. Texts come from symbols and devices.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize, ToSchema)]
#[schema(as = Group)]
pub struct ListedGroup {
    /// Id of the group, made of the app and the fingerprint.
    #[schema(value_type = Uuid)]
    pub id: GroupId,
    /// A short name of the group to say aloud: a part of the app's name, and some letters and digits. It names the group in
    /// its place in paths, and never another one of the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "SHOP-1A2B")]
    pub short_id: Option<String>,
    /// Bundle identifier of the app; empty if it is not known.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Fingerprint of the bug; equal for reports of the same bug in any app.
    pub fingerprint: Uuid,
    /// `crash`, `exception`, `stack_overflow`, `hang`, `cpu`, `disk_write`, `launch`, `profile`, `out_of_memory`,
    /// `memory_warning`, `termination`, `user` or `javascript`.
    #[schema(example = "crash")]
    pub kind: String,
    /// Title of the group, in one line: the error and its function.
    #[schema(example = "EXC_BAD_ACCESS (KERN_INVALID_ADDRESS) in Cart.total")]
    pub title: String,
    /// The function that caused the failure, and its file; absent if no function of the app was found.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(value_type = Option<String>, example = "Cart.total (Cart.swift)")]
    pub culprit: String,
    /// True while the symbols of a frame that counts are missing: with them the reports move to the group of
    /// their bug.
    pub provisional: bool,
    /// Number of all its reports; those that retention has removed still count, and a sampled report counts with its
    /// weight. In a list by version or period: its reports of that version that arrived in that period.
    pub reports: i64,
    /// Only in a list by version or period: its reports of all versions and times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_reports: Option<i64>,
    /// True if some of the reports were sampled. Then `reports` and the counts by version, day, model and system are
    /// estimates. The list of its reports has only those that are stored.
    pub estimated: bool,
    /// The different devices that these reports name; a report that names none counts for none. In a list by version or
    /// period: about 2 % off.
    #[sqlx(rename = "devices")]
    pub affected_devices: i64,
    /// When its first report arrived.
    #[serde(with = "time::serde::rfc3339")]
    pub first_seen: OffsetDateTime,
    /// The app's version in its first report; empty if the report names none.
    pub first_version: String,
    /// When its last report arrived.
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
    /// The app's version in its last report; empty if the report names none.
    pub last_version: String,
    /// Whether it needs attention: `open`, `regressed` (a new report after it was resolved), `resolved` or
    /// `ignored`.
    pub status: GroupStatus,
    /// The version that resolves it; absent if none was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_in: Option<String>,
    /// The newest version of the app when it was resolved in the next one: a report of a later version opens it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_after: Option<String>,
    /// When it was resolved last (RFC 3339); absent if it was not.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<OffsetDateTime>,
    /// The version of the report that brought it back last. It stays when the group is resolved again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regressed_in: Option<String>,
    /// When that report arrived (RFC 3339); absent if no report brought it back.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub regressed_at: Option<OffsetDateTime>,
    /// The time at which it is opened again if it is still ignored (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub ignored_until: Option<OffsetDateTime>,
    /// It is ignored until it has this many reports in all, and a new one comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_until_reports: Option<i64>,
    /// It is ignored until it has this many devices in all, and a new report comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_until_devices: Option<i64>,
    /// The newest version of the app when it was ignored until the next one: a report of a later version opens it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_after: Option<String>,
    /// The name of the person who works on it, as the team wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// The address of its ticket in another system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "https://tickets.example.com/SHOP-17")]
    pub ticket_url: Option<String>,
    /// True if the newest change of its state can be taken back: a person made it, and neither a report nor the clock changed
    /// the state since.
    pub can_undo: bool,
    /// The group that counts its reports and is listed in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub merged_into: Option<GroupId>,
    /// Only in a list of the groups that grow: what makes it grow.
    #[sqlx(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<GroupGrowth>,
}

impl ListedGroup {
    /// Returns the name of the group for people: its short id, or its id if it has none.
    #[must_use]
    pub fn shown_id(&self) -> String {
        self.short_id.clone().unwrap_or_else(|| self.id.to_string())
    }
}

/// Reports of a group in a period and in the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupGrowth {
    /// Reports that arrived in the period.
    pub reports: i64,
    /// Reports that arrived in the period of the same length before it, which ends at the same time of the day: of
    /// its last day, as much is counted as has passed of today.
    pub reports_before: i64,
}

/// Filter of a list of groups. A field that is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// Bundle identifier.
    pub app: Option<String>,
    /// It has reports of this version and period, which alone count.
    pub scope: CountScope,
    /// Its first report was of this version, or a report of it brought it back.
    pub new_in: Option<String>,
    /// The kind of event.
    pub kind: Option<String>,
    /// A report of it has this text in its title, its reason, or a function or file of its crash, in any case, or the text
    /// is its id or short id. Of more than 10,000 such groups those that were seen last count.
    pub text: Option<String>,
    /// Symbols are missing, or not.
    pub provisional: Option<bool>,
    /// The last report arrived at this time or later.
    pub seen_from: Option<OffsetDateTime>,
    /// The first report arrived at this time or later.
    pub new_from: Option<OffsetDateTime>,
    /// It has one of these statuses; any if empty.
    pub status: Vec<GroupStatus>,
    /// It is assigned to this name; to no one if empty.
    pub assignee: Option<String>,
    /// Its culprit is this.
    pub culprit: Option<String>,
    /// A feature has put this label on it.
    pub label: Option<String>,
}

const GROUP_COLUMNS: &str = "g.id, (SELECT s.short_id FROM group_short_ids s WHERE s.tenant = g.tenant AND s.group_id = g.id) \
     AS short_id, g.app, g.fingerprint, g.kind, g.title, g.culprit, g.provisional, g.reports, \
     NULL::bigint AS all_reports, g.devices, \
     g.first_seen, g.first_version, g.last_seen, g.last_version, g.status, g.resolved_in, g.resolved_after, \
     g.resolved_at, g.regressed_in, g.regressed_at, g.ignored_until, g.ignored_until_reports, g.ignored_until_devices, g.ignored_after, \
     g.state_before IS NOT NULL AS can_undo, \
     g.assignee, g.ticket_url, g.merged_into, EXISTS (SELECT FROM groups m WHERE m.tenant = g.tenant \
     AND (m.id = g.id OR m.merged_into = g.id) AND m.own_extrapolated > 0) AS estimated";

/// Groups that match, of which the ones with the most reports of a version or period are listed.
const MOST_RANKED: i64 = 1_000;

/// Returns the groups that match, at most `limit`, from the one after `after` on, a position of this order.
/// By reports of a version or period, of more than [`MOST_RANKED`] groups that match those with the most
/// reports of all are ranked.
pub async fn list_groups(
    tx: &mut TenantTx,
    filter: &GroupFilter,
    order: GroupOrder,
    after: Option<(i64, GroupId)>,
    limit: u32,
) -> Result<Vec<ListedGroup>> {
    let mut found = list_uncounted(tx, filter, order, after, limit).await?;
    replace_counts(tx, filter, &mut found).await?;
    Ok(found)
}

/// Returns the sets of groups that indexes find for the text and the version of a filter. A group that matches is in each.
async fn find_known(tx: &mut TenantTx, filter: &GroupFilter) -> Result<Vec<Vec<GroupId>>> {
    let mut known = Vec::new();
    if let Some(text) = &filter.text {
        let found = find_by_text(tx, text).await?;
        known.push(listed_as(tx, &found).await?);
    }
    // Of a rare version the index has the groups; a frequent one is found among the first groups of the order.
    if let Some(version) = filter.scope.version()
        && let Some(found) = scope::groups_of_version(tx, &version, MOST_RANKED).await?
    {
        known.push(listed_as(tx, &found).await?);
    }
    Ok(known)
}

/// Lists groups as [`list_groups`] does, without the counts of the filter's version and period unless the order is
/// by them.
async fn list_uncounted(
    tx: &mut TenantTx,
    filter: &GroupFilter,
    order: GroupOrder,
    after: Option<(i64, GroupId)>,
    limit: u32,
) -> Result<Vec<ListedGroup>> {
    let known = find_known(tx, filter).await?;
    let (connection, tenant, _) = tx.parts();
    let is_ranked = order == GroupOrder::Reports && !filter.scope.is_everything();
    let mut query = QueryBuilder::<Postgres>::new("SELECT ");
    if is_ranked {
        let columns = GROUP_COLUMNS.replace("g.reports,", "s.reports,");
        query.push(columns.replace("NULL::bigint AS all_reports", "g.reports AS all_reports"));
        query.push(" FROM (SELECT g.* FROM (SELECT g.* FROM groups g WHERE g.tenant = ");
    } else {
        query.push(GROUP_COLUMNS).push(" FROM groups g WHERE g.tenant = ");
    }
    query.push_bind(tenant.to_owned());
    push_matching(&mut query, filter, known);
    let mut column = order.column();
    if is_ranked {
        column = "s.reports";
        // In this order, so that the first groups of a frequent version are enough.
        query.push(" ORDER BY g.reports DESC, g.id DESC OFFSET 0) g WHERE EXISTS (SELECT");
        filter.scope.push_rows(&mut query);
        query.push(") ORDER BY g.reports DESC, g.id DESC LIMIT ").push_bind(MOST_RANKED);
        query.push(") g CROSS JOIN LATERAL (SELECT coalesce(sum(b.reports), 0)::bigint AS reports");
        filter.scope.push_rows(&mut query);
        query.push(") s WHERE s.reports > 0");
    } else {
        push_scope(&mut query, filter);
    }
    if let Some((value, id)) = after {
        query.push(" AND (").push(column).push(", g.id) < (");
        match order {
            GroupOrder::Reports => query.push_bind(value),
            GroupOrder::LastSeen | GroupOrder::FirstSeen => {
                query.push_bind(crate::outbox::from_micros(value))
            }
        };
        query.push(", ").push_bind(id).push(")");
    }
    query.push(format!(" ORDER BY {column} DESC, g.id DESC LIMIT ")).push_bind(i64::from(limit));
    Ok(query.build_query_as().fetch_all(connection).await?)
}

/// Adds the conditions on groups, except that they have reports of the version and the period.
fn push_matching(query: &mut QueryBuilder<Postgres>, filter: &GroupFilter, known: Vec<Vec<GroupId>>) {
    // A merged group is listed as its target; a group without reports is not listed.
    query.push(" AND g.merged_into IS NULL AND g.reports > 0");
    push_filter(query, filter);
    for groups in known {
        query.push(" AND g.id = ANY (").push_bind(groups).push(")");
    }
}

/// Adds the condition that groups have reports of the version and the period.
fn push_scope(query: &mut QueryBuilder<Postgres>, filter: &GroupFilter) {
    if !filter.scope.is_everything() {
        query.push(" AND EXISTS (SELECT");
        filter.scope.push_rows(query);
        query.push(")");
    }
}

fn push_filter(query: &mut QueryBuilder<Postgres>, filter: &GroupFilter) {
    let texts = [("g.app", &filter.app), ("g.kind", &filter.kind), ("g.culprit", &filter.culprit)];
    for (column, value) in texts {
        if let Some(value) = value {
            query.push(" AND ").push(column).push(" = ").push_bind(value.replace('\0', ""));
        }
    }
    if let Some(version) = &filter.new_in {
        let version = version.replace('\0', "");
        query.push(" AND (g.first_version = ").push_bind(version.clone());
        query.push(" OR g.regressed_in = ").push_bind(version).push(")");
    }
    filter.scope.push_period(query);
    if let Some(provisional) = filter.provisional {
        query.push(" AND g.provisional = ").push_bind(provisional);
    }
    for (column, from) in [("g.last_seen", filter.seen_from), ("g.first_seen", filter.new_from)] {
        if let Some(from) = from {
            query.push(" AND ").push(column).push(" >= ").push_bind(from);
        }
    }
    if !filter.status.is_empty() {
        let status: Vec<String> = filter.status.iter().map(|status| status.as_str().to_owned()).collect();
        query.push(" AND g.status = ANY (").push_bind(status).push(")");
    }
    if let Some(assignee) = &filter.assignee {
        query.push(" AND coalesce(g.assignee, '') = ").push_bind(assignee.replace('\0', ""));
    }
    if let Some(label) = &filter.label {
        query.push(
            " AND EXISTS (SELECT FROM group_labels l WHERE l.tenant = g.tenant AND l.group_id = g.id AND l.label = ",
        );
        query.push_bind(label.replace('\0', "")).push(")");
    }
}

/// Returns a group, or the one that replaced it. With `app`, only one of that app.
pub async fn find_group(tx: &mut TenantTx, id: GroupId, app: Option<&str>) -> Result<Option<ListedGroup>> {
    let (connection, tenant, _) = tx.parts();
    // The columns of a list, as the list reads them: not known to the macros.
    let group = sqlx::query_as(AssertSqlSafe(format!(
        "SELECT {GROUP_COLUMNS} FROM groups g
         WHERE g.tenant = $1 AND ($3::text IS NULL OR g.app = $3)
           AND g.id = coalesce((SELECT r.target FROM group_redirects r WHERE r.tenant = $1 AND r.id = $2), $2)"
    )))
    .bind(tenant)
    .bind(id)
    .bind(app)
    .fetch_optional(connection)
    .await?;
    Ok(group)
}

/// Returns the groups that are listed for these: their targets if they are merged.
async fn listed_as(tx: &mut TenantTx, groups: &[GroupId]) -> Result<Vec<GroupId>> {
    let (connection, tenant, _) = tx.parts();
    let listed = sqlx::query_scalar!(
        r#"SELECT DISTINCT coalesce(merged_into, id) AS "id!: GroupId" FROM groups WHERE tenant = $1 AND id = ANY ($2)"#,
        tenant,
        groups as &[GroupId]
    );
    Ok(listed.fetch_all(connection).await?)
}
