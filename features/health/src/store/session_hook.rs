//! The questions of the core about sessions.

use super::figures;
use super::figures::memory_limits::{learned_limits, system_version};
use super::sessions::find_sessions;
use time::Duration;
use unslide_store::sessions::{AppHours, AppPeriod, AppSessions, DeviceScope, HourSessions, SessionHook};
use unslide_store::{HookFuture, TenantTx};

pub const SESSION_HOOK: SessionHook =
    SessionHook { count: count_sessions, list_hours, find_memory_limit, find_of_person: find_sessions };

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

/// Lists the sessions of apps by hour.
fn list_hours<'t>(tx: &'t mut TenantTx, hours: AppHours<'t>) -> HookFuture<'t, Vec<HourSessions>> {
    Box::pin(async move {
        let (connection, tenant, _) = tx.parts();
        Ok(sqlx::query_as!(
            HourSessions,
            r#"SELECT app, hour, sum(sessions)::bigint AS "sessions!" FROM session_hour_counts
               WHERE tenant = $1 AND app = ANY ($2) AND hour >= $3 GROUP BY app, hour"#,
            tenant,
            hours.apps,
            hours.since
        )
        .fetch_all(connection)
        .await?)
    })
}

/// Finds the limit that reports and sessions of other devices of the model teach.
fn find_memory_limit<'t>(tx: &'t mut TenantTx, device: DeviceScope<'t>) -> HookFuture<'t, Option<u64>> {
    Box::pin(async move {
        let Some(version) = system_version(device.os) else { return Ok(None) };
        Ok(learned_limits(tx, &[[device.app, device.model, version]]).await?.pop().flatten())
    })
}
