//! Whether a group waits, when a new report contradicts that it is resolved.

use crate::store::{RegressionRule, hold, read_rule, release};
use std::collections::BTreeSet;
use time::Duration;
use unslide_store::groups::{Contradiction, GroupEvent};
use unslide_store::sessions::{AppPeriod, count_sessions};
use unslide_store::{GroupId, Result, TenantTx};

/// The time in which an app has sent a session, if it sends some.
const USE_PERIOD: Duration = Duration::days(28);

/// Keeps those groups resolved that wait for a verdict.
pub async fn keep_resolved(
    tx: &mut TenantTx,
    found: &[Contradiction],
    kept: &mut BTreeSet<GroupId>,
) -> Result<()> {
    if read_rule(tx).await? == RegressionRule::AnyReport {
        return Ok(());
    }
    let apps: BTreeSet<&str> = found.iter().map(|one| &*one.app).collect();
    let today = tx.now().date();
    for app in apps {
        let period = AppPeriod { app, first: today - USE_PERIOD, last: today };
        if count_sessions(tx, period).await?.is_none_or(|counted| counted.sessions == 0) {
            continue;
        }
        let waiting: Vec<&Contradiction> = found.iter().filter(|one| one.app == app).collect();
        hold(tx, &waiting).await?;
        kept.extend(waiting.iter().map(|one| one.group));
    }
    Ok(())
}

/// Ends the waits of groups that came back.
pub async fn release_returned(tx: &mut TenantTx, events: &[GroupEvent]) -> Result<()> {
    let returned = events.iter().filter_map(|event| match event {
        GroupEvent::Regressed { group, .. } => Some(*group),
        _ => None,
    });
    let returned: Vec<GroupId> = returned.collect();
    if returned.is_empty() { Ok(()) } else { release(tx, &returned).await }
}
