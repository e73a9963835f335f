//! A group with its counts by version, model, system and day.

use super::variants::{GroupVariant, list_variants};
use super::{ListedGroup, find_group};
use crate::groups::MAX_MERGED;
use crate::number::to_row;
use crate::queries::day;
use crate::queries::trends::GroupHour;
use crate::report_rows::GroupRows;
use crate::{GroupId, Result, TenantTx};
use serde::Serialize;
use sqlx::FromRow;
use time::Date;
use utoipa::ToSchema;

/// The days on which [`get`] counts reports, from the last one back.
const GROUP_DAYS_LIMIT: usize = 90;
/// The versions that [`get`] lists, the one with the most reports first.
const MOST_VERSIONS: i64 = 50;
/// The models and the OS versions that [`get`] lists, those with the most reports first.
const MOST_VALUES: i64 = 20;

/// A group with its reports by version and by day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = GroupDetail)]
pub struct GroupCounts {
    /// The group itself, as in lists.
    #[serde(flatten)]
    pub group: ListedGroup,
    /// Its versions, the one with the most reports first, at most 50.
    #[schema(max_items = 50)]
    pub versions: Vec<GroupVersion>,
    /// Its device models, the one with the most reports first, at most 20.
    #[schema(max_items = 20)]
    pub devices: Vec<GroupModel>,
    /// Its versions of operating systems, the one with the most reports first, at most 20.
    #[schema(max_items = 20)]
    pub os_versions: Vec<GroupOsVersion>,
    /// The last 90 days with reports, the newest first.
    #[schema(max_items = 90)]
    pub days: Vec<GroupDay>,
    /// Those of the last 48 hours, with the current one, that have reports, the newest first.
    #[schema(max_items = 48)]
    pub hours: Vec<GroupHour>,
    /// The id of the request, if its group was replaced by this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub redirected_from: Option<GroupId>,
    /// Different stacks among its newest 200 reports, the most frequent first, at most 10.
    #[schema(max_items = 10)]
    pub variants: Vec<GroupVariant>,
    /// The sessions and the installations of the app in the last 30 days, and the part of them that it hit. Absent if the app
    /// sends no sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<GroupShare>,
    /// The groups that are merged into it, the one with the most reports first, at most 200. The counts above
    /// include theirs.
    #[schema(max_items = 200)]
    pub merged: Vec<MergedGroup>,
}

/// The part of an app's sessions and installations that a group hit in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupShare {
    /// Reports of the group that arrived in the period.
    pub reports: i64,
    /// Sessions of the app that began in it.
    pub sessions: i64,
    /// Different devices of these reports, about 2 % off.
    pub affected_devices: i64,
    /// Different installations of these sessions, about 2 % off.
    pub installations: i64,
    /// True if the sessions were sampled, so that their number is an estimate.
    pub estimated: bool,
}

/// Reports of groups by their value in a dimension, the most frequent values first, at most `most`.
async fn read_breakdown(
    tx: &mut TenantTx,
    groups: &[GroupId],
    dimension: &str,
    most: i64,
) -> Result<Vec<(String, i64)>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT value AS "value!", sum(reports)::bigint AS "reports!" FROM group_breakdown_counts
           WHERE tenant = $1 AND group_id = ANY ($2) AND dimension = $3
           GROUP BY value ORDER BY 2 DESC, value LIMIT $4"#,
        tenant,
        groups as &[GroupId],
        dimension,
        most
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(|row| (row.value, row.reports)).collect())
}

/// A group that is merged into another one.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize, ToSchema)]
pub struct MergedGroup {
    /// Id of the merged group.
    #[schema(value_type = Uuid)]
    pub id: GroupId,
    /// Title of the group, in one line: the error and its function.
    pub title: String,
    /// The function that caused the failure, and its file; absent if no function of the app was found.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(value_type = Option<String>)]
    pub culprit: String,
    /// Number of its own reports, without those of the group that it was merged into.
    pub reports: i64,
    /// True if `reports` is an estimate, because some of them were sampled.
    pub estimated: bool,
}

/// A version with reports of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupVersion {
    /// The version; empty for reports that name none.
    pub version: String,
    /// Number of reports from this version of the app.
    pub reports: i64,
}

/// A device model with reports of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupModel {
    /// The model; empty for reports that name none.
    #[schema(example = "iPhone16,1")]
    pub model: String,
    /// Number of reports from this model.
    pub reports: i64,
}

/// A version of an operating system with reports of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupOsVersion {
    /// The system's name and version; empty for reports that name neither.
    #[schema(example = "iOS 18.1")]
    pub os_version: String,
    /// Number of reports from this version of the system.
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

/// Returns a group, or the one that replaced it, with its reports by version and by day. With `app`, only one
/// of that app.
pub async fn get(tx: &mut TenantTx, id: GroupId, app: Option<&str>) -> Result<Option<GroupCounts>> {
    let Some(group) = find_group(tx, id, app).await? else { return Ok(None) };
    let redirected_from = (group.id != id).then_some(id);
    let id = group.id;
    let rows = GroupRows::find_for_group(tx, id).await?;
    let groups = &rows.ids;
    let versions = read_breakdown(tx, groups, "version", MOST_VERSIONS).await?;
    let versions = versions.into_iter().map(|(version, reports)| GroupVersion { version, reports }).collect();
    let devices = read_breakdown(tx, groups, "model", MOST_VALUES).await?;
    let devices = devices.into_iter().map(|(model, reports)| GroupModel { model, reports }).collect();
    let os_versions = read_breakdown(tx, groups, "os_version", MOST_VALUES).await?;
    let os_versions =
        os_versions.into_iter().map(|(os_version, reports)| GroupOsVersion { os_version, reports }).collect();
    let days = rows.days.iter().flatten().take(GROUP_DAYS_LIMIT);
    let days = days.map(|one| GroupDay { day: one.day, reports: one.reports }).collect();
    let (connection, tenant, _) = tx.parts();
    let merged = sqlx::query_as!(
        MergedGroup,
        r#"SELECT id AS "id: GroupId", title, culprit, own_reports AS reports, own_extrapolated > 0 AS "estimated!"
           FROM groups WHERE tenant = $1 AND merged_into = $2 ORDER BY own_reports DESC, id LIMIT $3"#,
        tenant,
        id as GroupId,
        to_row(MAX_MERGED as u64)
    )
    .fetch_all(connection)
    .await?;
    let variants = list_variants(tx, &rows).await?;
    let share = None;
    Ok(Some(GroupCounts {
        group,
        versions,
        devices,
        os_versions,
        days,
        hours: Vec::new(),
        redirected_from,
        variants,
        share,
        merged,
    }))
}
