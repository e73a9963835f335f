//! Finds the groups that requests name by their ids or short ids.

use super::no_such_group;
use crate::operations::prelude::*;
use time::Duration;
use unslide_model::GroupRef;
use unslide_store::groups::{find_short_ids, follow_redirects};
use unslide_store::queries::groups::{
    self, CountScope, GroupCounts, GroupFilter, GroupShare, ListedGroup, find_group,
};
use unslide_store::queries::trends;
use unslide_store::sessions::{self, AppPeriod};
use unslide_store::{GroupId, TenantTx};

/// The hours of a group's counts by hour, with the current one.
pub const GROUP_HOURS: i64 = 48;

/// Days of the share of sessions, with today.
const SHARE_DAYS: i64 = 30;

/// Returns the id of the group that a request names.
///
/// # Errors
/// [`Kind::NotFound`] if no group ever had this short id, or the database fails.
pub async fn resolve_group(tx: &mut TenantTx, group: &GroupRef) -> Result<GroupId, Problem> {
    let found = resolve_groups(tx, std::slice::from_ref(group)).await?;
    found.first().copied().flatten().ok_or_else(no_such_group)
}

/// Returns the group that a request names, or the group that replaced it. With `app` only one of that app.
///
/// # Errors
/// [`Kind::NotFound`], or the database fails.
pub async fn find_named_group(
    tx: &mut TenantTx,
    group: &GroupRef,
    app: Option<&str>,
) -> Result<ListedGroup, Problem> {
    let id = resolve_group(tx, group).await?;
    let id = follow_redirects(tx, &[id]).await?.pop().unwrap_or(id);
    find_group(tx, id, app).await?.ok_or_else(no_such_group)
}

/// Returns the group of a filter; the nil id, which no group has, for a short id that no group ever had.
///
/// # Errors
/// The database fails.
pub async fn resolve_filter(tx: &mut TenantTx, group: &GroupRef) -> Result<GroupId, Problem> {
    let found = resolve_groups(tx, std::slice::from_ref(group)).await?;
    Ok(found.first().copied().flatten().unwrap_or_default())
}

/// Returns the ids of the groups that a body names.
///
/// # Errors
/// [`Kind::InvalidBody`] for a short id that no group ever had.
pub async fn resolve_sent(tx: &mut TenantTx, groups: &[GroupRef]) -> Result<Vec<GroupId>, Problem> {
    let found = resolve_groups(tx, groups).await?;
    let missing = |group| Problem::new(Kind::InvalidBody, format!("there is no group {group}"));
    groups.iter().zip(found).map(|(group, id)| id.ok_or_else(|| missing(group))).collect()
}

/// Returns the ids of groups, in their places; `None` for a short id that no group ever had.
///
/// # Errors
/// The database fails.
pub async fn resolve_groups(tx: &mut TenantTx, groups: &[GroupRef]) -> Result<Vec<Option<GroupId>>, Problem> {
    let names = groups.iter().map(|group| match group {
        GroupRef::Id(_) => String::new(),
        GroupRef::ShortId(name) => name.clone(),
    });
    let names: Vec<String> = names.collect();
    if names.iter().all(String::is_empty) {
        return Ok(groups.iter().map(as_id).collect());
    }
    let found = find_short_ids(tx, &names).await?;
    Ok(groups.iter().zip(found).map(|(group, found)| as_id(group).or(found)).collect())
}

fn as_id(group: &GroupRef) -> Option<GroupId> {
    match group {
        GroupRef::Id(id) => Some(GroupId::from_uuid(*id)),
        GroupRef::ShortId(_) => None,
    }
}

/// Returns a group that the key may see, or the group that replaced it.
///
/// # Errors
/// [`Kind::NotFound`].
pub async fn load_group(
    storage: &Storage,
    access: &Access<ReportsRead>,
    id: impl Into<GroupRef>,
) -> Result<GroupCounts, Problem> {
    let named = id.into();
    let mut tx = storage.tenant(access.tenant()).await?;
    let id = resolve_group(&mut tx, &named).await?;
    let found = groups::get(&mut tx, id, access.principal.app.as_deref()).await?;
    let mut found = found.ok_or_else(no_such_group)?;
    found.share = find_share(storage, &mut tx, &found.group).await?;
    let from = storage.clock.now().truncate_to_hour() - Duration::hours(GROUP_HOURS - 1);
    found.hours = trends::read_group_hours(&mut tx, found.group.id, from).await?;
    Ok(found)
}

/// Returns the part of the app's sessions that a group hit, if a feature knows of sessions.
async fn find_share(
    storage: &Storage,
    tx: &mut TenantTx,
    group: &ListedGroup,
) -> Result<Option<GroupShare>, Problem> {
    let last = storage.clock.now().date();
    let period = AppPeriod { app: &group.app, first: last - Duration::days(SHARE_DAYS - 1), last };
    let Some(of_app) = sessions::count_sessions(tx, period).await? else { return Ok(None) };
    let scope = CountScope { from_day: Some(period.first), ..CountScope::default() };
    let filter = GroupFilter { scope, ..GroupFilter::default() };
    let mut counted = [group.clone()];
    groups::replace_counts(tx, &filter, &mut counted).await?;
    let [counted] = counted;
    Ok(Some(GroupShare {
        reports: counted.reports,
        sessions: of_app.sessions,
        affected_devices: counted.affected_devices,
        installations: of_app.installations,
        estimated: of_app.estimated,
    }))
}
