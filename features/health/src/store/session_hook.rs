//! The questions of the core about sessions.

use super::figures;
use super::figures::memory_limits::{learned_limits, system_version};
use super::metrics::read_sketch;
use super::sessions::find_sessions;
use time::Duration;
use unslide_store::sessions::{
    AppHours, AppPeriod, AppSessions, DeviceScope, HourSessions, SessionDayCounts, SessionHook, ValueDay,
    VersionPeriod,
};
use unslide_store::{HookFuture, TenantTx};

/// Rows of versions and days that a list of sessions has.
const SESSION_DAYS_LIMIT: i64 = 50_000;
/// Rows of versions, days and metrics that a list of values has, each with a sketch.
const VALUE_DAYS_LIMIT: i64 = 1_000;

pub const SESSION_HOOK: SessionHook = SessionHook {
    count: count_sessions,
    list_hours,
    list_days,
    list_values,
    find_memory_limit,
    find_of_person: find_sessions,
};

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

/// Lists the sessions of versions by day.
fn list_days<'t>(tx: &'t mut TenantTx, period: VersionPeriod<'t>) -> HookFuture<'t, Vec<SessionDayCounts>> {
    Box::pin(async move {
        let (connection, tenant, _) = tx.parts();
        Ok(sqlx::query_as!(
            SessionDayCounts,
            r#"SELECT version, day, sessions, crashed, out_of_memory + unexplained AS "out_of_memory!", squares
               FROM session_days
               WHERE tenant = $1 AND app = $2 AND ($3::text[] IS NULL OR version = ANY ($3)) AND day >= $4 AND day <= $5
               ORDER BY day DESC, version DESC LIMIT $6"#,
            tenant,
            period.app,
            period.versions,
            period.first,
            period.last,
            SESSION_DAYS_LIMIT
        )
        .fetch_all(connection)
        .await?)
    })
}

/// Lists the values of metrics by version and day.
fn list_values<'t>(
    tx: &'t mut TenantTx,
    period: VersionPeriod<'t>,
    names: &'t [&'static str],
) -> HookFuture<'t, Vec<ValueDay>> {
    Box::pin(async move {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let (connection, tenant, _) = tx.parts();
        let rows = sqlx::query!(
            "SELECT version, day, metric, observations, squares, sketch FROM metric_days
             WHERE tenant = $1 AND app = $2 AND dimension = '' AND ($3::text[] IS NULL OR version = ANY ($3))
               AND day >= $4 AND day <= $5 AND metric = ANY ($6)
             ORDER BY day DESC, version DESC, metric DESC LIMIT $7",
            tenant,
            period.app,
            period.versions,
            period.first,
            period.last,
            &names,
            VALUE_DAYS_LIMIT
        )
        .fetch_all(connection)
        .await?;
        let values = rows.into_iter().map(|row| {
            read_sketch(&row.sketch).map(|sketch| ValueDay {
                version: row.version,
                day: row.day,
                name: row.metric,
                observations: row.observations,
                squares: row.squares,
                sketch,
            })
        });
        values.collect()
    })
}

/// Finds the limit that reports and sessions of other devices of the model teach.
fn find_memory_limit<'t>(tx: &'t mut TenantTx, device: DeviceScope<'t>) -> HookFuture<'t, Option<u64>> {
    Box::pin(async move {
        let Some(version) = system_version(device.os) else { return Ok(None) };
        Ok(learned_limits(tx, &[[device.app, device.model, version]]).await?.pop().flatten())
    })
}
