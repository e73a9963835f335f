//! The questions of the core about sessions.

use super::figures;
use super::figures::memory_limits::{learned_limits, system_version};
use super::sessions::find_sessions;
use time::Duration;
use unslide_store::sessions::{AppPeriod, AppSessions, DeviceScope, SessionHook};
use unslide_store::{HookFuture, TenantTx};

pub const SESSION_HOOK: SessionHook =
    SessionHook { count: count_sessions, find_memory_limit, find_of_person: find_sessions };

/// Counts the sessions and installations of an app in a period.
fn count_sessions<'t>(tx: &'t mut TenantTx, period: AppPeriod<'t>) -> HookFuture<'t, Option<AppSessions>> {
    Box::pin(async move {
        let days = (period.first, period.last.saturating_add(Duration::DAY));
        let total = figures::total_figures(tx, (Some(period.app), None), days).await?;
        let (_, sessions) = total.crashed_of_sessions();
        let (_, installations) = total.crashed_of_installations();
        let found = AppSessions { sessions, installations, estimated: total.estimated };
        Ok((sessions > 0).then_some(found))
    })
}

/// Finds the limit that reports and sessions of other devices of the model teach.
fn find_memory_limit<'t>(tx: &'t mut TenantTx, device: DeviceScope<'t>) -> HookFuture<'t, Option<u64>> {
    Box::pin(async move {
        let Some(version) = system_version(device.os) else { return Ok(None) };
        Ok(learned_limits(tx, &[[device.app, device.model, version]]).await?.pop().flatten())
    })
}
