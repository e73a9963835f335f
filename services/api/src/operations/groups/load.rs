//! Loading of a group for a request, if its key may see it.

use super::no_such_group;
use super::reference::{GroupRef, resolve_group};
use crate::feature::figures::AppPeriod;
use crate::operations::prelude::*;
use time::Duration;
use unslide_store::TenantTx;
use unslide_store::queries::groups::{self, CountScope, GroupCounts, GroupFilter, GroupShare, ListedGroup};

/// Days of the share of sessions, with today.
const SHARE_DAYS: i64 = 30;

/// Returns a group that the key may see, or the group that replaced it.
///
/// # Errors
/// [`Kind::NotFound`].
pub async fn load_group(
    api: &Api,
    access: &Access<ReportsRead>,
    id: impl Into<GroupRef>,
) -> Result<GroupCounts, Problem> {
    let named = id.into();
    let mut tx = api.tenant(access.tenant()).await?;
    let id = resolve_group(&mut tx, &named).await?;
    let found = groups::get(&mut tx, id, access.principal.app.as_deref()).await?;
    let mut found = found.ok_or_else(no_such_group)?;
    found.share = find_share(api, &mut tx, &found.group).await?;
    Ok(found)
}

/// Returns the part of the app's sessions that a group hit, if a feature knows of sessions.
async fn find_share(
    api: &Api,
    tx: &mut TenantTx,
    group: &ListedGroup,
) -> Result<Option<GroupShare>, Problem> {
    let last = api.clock.now().date();
    let period = AppPeriod { app: &group.app, first: last - Duration::days(SHARE_DAYS - 1), last };
    for find in api.features.iter().filter_map(|feature| feature.find_app_sessions) {
        let Some(of_app) = find(tx, period).await? else { continue };
        let scope = CountScope { from_day: Some(period.first), ..CountScope::default() };
        let filter = GroupFilter { scope, ..GroupFilter::default() };
        let mut counted = [group.clone()];
        groups::replace_counts(tx, &filter, &mut counted).await?;
        let [counted] = counted;
        return Ok(Some(GroupShare {
            reports: counted.reports,
            sessions: of_app.sessions,
            affected_devices: counted.affected_devices,
            installations: of_app.installations,
            estimated: of_app.estimated,
        }));
    }
    Ok(None)
}
