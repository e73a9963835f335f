//! Groups of reports: one bug each.

use super::day;
use crate::{Result, TenantTx, Uuid};
use serde::Serialize;
use sqlx::{FromRow, Postgres, QueryBuilder};
use time::{Date, OffsetDateTime};
use utoipa::ToSchema;

/// The days whose reports [`get`] counts, from the last one back.
const MOST_DAYS: i64 = 90;
/// The versions that [`get`] lists, the one with the most reports first.
const MOST_VERSIONS: i64 = 50;

/// The reports of one bug of an app. Texts come from symbols and devices.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize, ToSchema)]
#[schema(as = Group)]
pub struct ListedGroup {
    /// Its id, from the app and the fingerprint.
    pub id: Uuid,
    /// Bundle identifier; empty where unknown.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Equal for reports of the same bug, of whatever app.
    pub fingerprint: Uuid,
    /// `crash`, `exception`, `stack_overflow`, `hang`, `out_of_memory`, `termination` or `user`.
    #[schema(example = "crash")]
    pub kind: String,
    /// What it is about, in one line.
    #[schema(example = "EXC_BAD_ACCESS (KERN_INVALID_ADDRESS) in Cart.total")]
    pub title: String,
    /// The function that is to blame, and its file; absent where none is.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(value_type = Option<String>, example = "Cart.total (Cart.swift)")]
    pub culprit: String,
    /// True while the symbols of a frame that counts are missing: with them the reports move to the group of
    /// their bug.
    pub provisional: bool,
    /// Reports that it ever had; those that retention has removed still count.
    pub reports: i64,
    /// When its first report arrived.
    #[serde(with = "time::serde::rfc3339")]
    pub first_seen: OffsetDateTime,
    /// That report's version.
    pub first_version: String,
    /// When its last report arrived.
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
    /// That report's version.
    pub last_version: String,
}

/// Which groups to list. What is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// Bundle identifier.
    pub app: Option<String>,
    /// It has reports of this version.
    pub version: Option<String>,
    /// What happened.
    pub kind: Option<String>,
    /// Title or culprit contain this text, in any case.
    pub text: Option<String>,
    /// Symbols are missing, or not.
    pub provisional: Option<bool>,
    /// The last report arrived at this time or later.
    pub seen_from: Option<OffsetDateTime>,
    /// The first report arrived at this time or later.
    pub new_from: Option<OffsetDateTime>,
}

/// What a list of groups goes by; the largest first.
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
    fn column(self) -> &'static str {
        match self {
            GroupOrder::LastSeen => "g.last_seen",
            GroupOrder::FirstSeen => "g.first_seen",
            GroupOrder::Reports => "g.reports",
        }
    }

    /// Where a group stands in a list of this order: microseconds or reports, and its id.
    #[must_use]
    pub fn position(self, group: &ListedGroup) -> (i64, Uuid) {
        let value = match self {
            GroupOrder::LastSeen => crate::outbox::micros(group.last_seen),
            GroupOrder::FirstSeen => crate::outbox::micros(group.first_seen),
            GroupOrder::Reports => group.reports,
        };
        (value, group.id)
    }
}

const COLUMNS: &str = "g.id, g.app, g.fingerprint, g.kind, g.title, g.culprit, g.provisional, g.reports, \
     g.first_seen, g.first_version, g.last_seen, g.last_version";

/// The groups that fit, at most `limit`, from the one after `after` on, a position of this order.
///
/// # Errors
/// Where the database fails.
pub async fn list(
    tx: &mut TenantTx,
    filter: &GroupFilter,
    order: GroupOrder,
    after: Option<(i64, Uuid)>,
    limit: u32,
) -> Result<Vec<ListedGroup>> {
    let (connection, tenant, _) = tx.parts();
    let mut query =
        QueryBuilder::<Postgres>::new(format!("SELECT {COLUMNS} FROM groups g WHERE g.tenant = "));
    query.push_bind(tenant.to_owned());
    for (column, value) in [("g.app", &filter.app), ("g.kind", &filter.kind)] {
        if let Some(value) = value {
            query.push(" AND ").push(column).push(" = ").push_bind(value.replace('\0', ""));
        }
    }
    if let Some(version) = &filter.version {
        query.push(
            " AND EXISTS (SELECT FROM group_days d WHERE d.tenant = g.tenant AND d.group_id = g.id AND d.version = ",
        );
        query.push_bind(version.replace('\0', "")).push(")");
    }
    if let Some(text) = &filter.text {
        query.push(" AND position(lower(").push_bind(text.replace('\0', ""));
        query.push(") IN lower(g.title || ' ' || g.culprit)) > 0");
    }
    if let Some(provisional) = filter.provisional {
        query.push(" AND g.provisional = ").push_bind(provisional);
    }
    for (column, from) in [("g.last_seen", filter.seen_from), ("g.first_seen", filter.new_from)] {
        if let Some(from) = from {
            query.push(" AND ").push(column).push(" >= ").push_bind(from);
        }
    }
    let column = order.column();
    if let Some((value, id)) = after {
        query.push(" AND (").push(column).push(", g.id) < (");
        match order {
            GroupOrder::Reports => query.push_bind(value),
            GroupOrder::LastSeen | GroupOrder::FirstSeen => query.push_bind(crate::outbox::time(value)),
        };
        query.push(", ").push_bind(id).push(")");
    }
    query.push(format!(" ORDER BY {column} DESC, g.id DESC LIMIT ")).push_bind(i64::from(limit));
    Ok(query.build_query_as().fetch_all(connection).await?)
}

/// A group with its reports by version and by day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = GroupDetail)]
pub struct GroupCounts {
    /// The group.
    #[serde(flatten)]
    pub group: ListedGroup,
    /// Its versions, the one with the most reports first, at most 50.
    #[schema(max_items = 50)]
    pub versions: Vec<GroupVersion>,
    /// The last 90 days with reports, the newest first.
    #[schema(max_items = 90)]
    pub days: Vec<GroupDay>,
}

/// A version with reports of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupVersion {
    /// The version; empty for reports that name none.
    pub version: String,
    /// Reports of the version.
    pub reports: i64,
}

/// A day with reports of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupDay {
    /// The day of arrival (UTC).
    #[serde(with = "day")]
    pub day: Date,
    /// Reports that arrived on it.
    pub reports: i64,
}

/// A group with its reports by version and by day. With `app`, only one of that app.
///
/// # Errors
/// Where the database fails.
pub async fn get(tx: &mut TenantTx, id: Uuid, app: Option<&str>) -> Result<Option<GroupCounts>> {
    let (connection, tenant, _) = tx.parts();
    let group = sqlx::query_as!(
        ListedGroup,
        "SELECT id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen, first_version, last_seen,
                last_version
         FROM groups WHERE tenant = $1 AND id = $2 AND ($3::text IS NULL OR app = $3)",
        tenant,
        id,
        app
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(group) = group else { return Ok(None) };
    let versions = sqlx::query_as!(
        GroupVersion,
        r#"SELECT version, sum(reports)::bigint AS "reports!" FROM group_days
           WHERE tenant = $1 AND group_id = $2 GROUP BY version ORDER BY 2 DESC, version LIMIT $3"#,
        tenant,
        id,
        MOST_VERSIONS
    )
    .fetch_all(&mut *connection)
    .await?;
    let days = sqlx::query_as!(
        GroupDay,
        r#"SELECT day, sum(reports)::bigint AS "reports!" FROM group_days
           WHERE tenant = $1 AND group_id = $2 GROUP BY day ORDER BY day DESC LIMIT $3"#,
        tenant,
        id,
        MOST_DAYS
    )
    .fetch_all(connection)
    .await?;
    Ok(Some(GroupCounts { group, versions, days }))
}
