//! Sessions of apps, as a feature counts them. The core has reports alone, and most sessions have none.

use crate::persons::hash_person;
use crate::queries::person::{FoundSession, PersonScope, SEARCHED_SESSIONS_LIMIT};
use crate::{HookFuture, Result, TenantTx};
use time::{Date, OffsetDateTime};
use unslide_model::QuantileSketch;

/// The functions of a feature that has sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionHook {
    /// Counts the sessions of an app in a period, of which a group hits a part. Returns `None` if the app sent none.
    pub count: CountSessions,
    /// Lists the sessions of apps by hour, of which a group hits a part.
    pub list_hours: ListSessionHours,
    /// Lists the sessions of versions of an app by day, which a test compares.
    pub list_days: ListSessionDays,
    /// Lists what versions of an app measured by day, which a test compares.
    pub list_values: ListValueDays,
    /// Finds the memory limit of an app on a device that other sessions teach, in bytes: it decides how the run of a
    /// report ended.
    pub find_memory_limit: FindMemoryLimit,
    /// Finds the sessions of an installation or a user for a search, those that ended badly first. The search goes on to
    /// their reports.
    pub find_of_person: FindPersonSessions,
}

/// See [`SessionHook::count`].
pub type CountSessions = for<'t> fn(&'t mut TenantTx, AppPeriod<'t>) -> HookFuture<'t, Option<AppSessions>>;
/// See [`SessionHook::list_hours`].
pub type ListSessionHours = for<'t> fn(&'t mut TenantTx, AppHours<'t>) -> HookFuture<'t, Vec<HourSessions>>;
/// See [`SessionHook::list_days`].
pub type ListSessionDays =
    for<'t> fn(&'t mut TenantTx, VersionPeriod<'t>) -> HookFuture<'t, Vec<SessionDayCounts>>;
/// See [`SessionHook::list_values`].
pub type ListValueDays =
    for<'t> fn(&'t mut TenantTx, VersionPeriod<'t>, &'t [&'static str]) -> HookFuture<'t, Vec<ValueDay>>;
/// See [`SessionHook::find_memory_limit`].
pub type FindMemoryLimit = for<'t> fn(&'t mut TenantTx, DeviceScope<'t>) -> HookFuture<'t, Option<u64>>;
/// See [`SessionHook::find_of_person`].
pub type FindPersonSessions =
    for<'t> fn(&'t mut TenantTx, PersonScope<'t>) -> HookFuture<'t, Vec<FoundSession>>;

/// An app in a period of whole days (UTC).
#[derive(Clone, Copy, Debug)]
pub struct AppPeriod<'t> {
    /// The app.
    pub app: &'t str,
    /// The first day.
    pub first: Date,
    /// The last day, which is part of the period.
    pub last: Date,
}

/// Apps in the hours since a time.
#[derive(Clone, Copy, Debug)]
pub struct AppHours<'t> {
    /// The apps.
    pub apps: &'t [String],
    /// The beginning of the first hour.
    pub since: OffsetDateTime,
}

/// Versions of an app in a period of whole days (UTC).
#[derive(Clone, Copy, Debug)]
pub struct VersionPeriod<'t> {
    /// The app.
    pub app: &'t str,
    /// The versions; all if absent.
    pub versions: Option<&'t [String]>,
    /// The first day.
    pub first: Date,
    /// The last day, which is part of the period.
    pub last: Date,
}

/// The sessions of a version that began on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDayCounts {
    /// The version; empty if the sessions name none.
    pub version: String,
    /// The day.
    pub day: Date,
    /// Their number, those that they represent included.
    pub sessions: i64,
    /// Those of them that crashed.
    pub crashed: i64,
    /// Those of them that ended in the foreground for lack of memory.
    pub out_of_memory: i64,
    /// The sum of the squares of their weights.
    pub squares: i64,
}

/// What a version measured on a day.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueDay {
    /// The version; empty if the measurements name none.
    pub version: String,
    /// The day.
    pub day: Date,
    /// The name of the measure.
    pub name: String,
    /// The number of measurements, those that they represent included.
    pub observations: f64,
    /// The sum of the squares of what each sender added to them: says how many independent ones they are worth.
    pub squares: f64,
    /// Their distribution.
    pub sketch: QuantileSketch,
}

/// The sessions of an app that began in an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourSessions {
    /// The app.
    pub app: String,
    /// The beginning of the hour.
    pub hour: OffsetDateTime,
    /// Their number, those that they represent included.
    pub sessions: i64,
}

/// Numbers of sessions.
#[derive(Clone, Copy, Debug)]
pub struct AppSessions {
    /// Sessions that began in the period.
    pub sessions: i64,
    /// Different installations, approximately.
    pub installations: i64,
    /// True if a part of the sessions was not kept.
    pub estimated: bool,
}

/// An app on a device model with a version of the system.
#[derive(Clone, Copy, Debug)]
pub struct DeviceScope<'t> {
    /// The app.
    pub app: &'t str,
    /// The model's code.
    pub model: &'t str,
    /// The name or version of the system.
    pub os: &'t str,
}

/// Counts the sessions of an app in a period. Returns `None` if no feature has some.
pub async fn count_sessions(tx: &mut TenantTx, period: AppPeriod<'_>) -> Result<Option<AppSessions>> {
    match find_hook(tx) {
        Some(sessions) => (sessions.count)(tx, period).await,
        None => Ok(None),
    }
}

/// Lists the sessions of apps by hour, of the last two days at most. Returns none if no feature has some.
pub async fn list_hours(tx: &mut TenantTx, hours: AppHours<'_>) -> Result<Vec<HourSessions>> {
    match find_hook(tx) {
        Some(sessions) => (sessions.list_hours)(tx, hours).await,
        None => Ok(Vec::new()),
    }
}

/// Lists the sessions of versions of an app by day, at most 50,000 days of versions, the newest first. Returns none if no feature
/// has some.
pub async fn list_days(tx: &mut TenantTx, period: VersionPeriod<'_>) -> Result<Vec<SessionDayCounts>> {
    match find_hook(tx) {
        Some(sessions) => (sessions.list_days)(tx, period).await,
        None => Ok(Vec::new()),
    }
}

/// Lists what versions of an app measured by day, at most 1,000 entries, the newest first. Returns none if no feature has some.
pub async fn list_values(
    tx: &mut TenantTx,
    period: VersionPeriod<'_>,
    names: &[&'static str],
) -> Result<Vec<ValueDay>> {
    match find_hook(tx) {
        Some(sessions) => (sessions.list_values)(tx, period, names).await,
        None => Ok(Vec::new()),
    }
}

/// Finds the memory limit of an app on a device that other sessions teach, in bytes.
pub async fn find_memory_limit(tx: &mut TenantTx, device: DeviceScope<'_>) -> Result<Option<u64>> {
    match find_hook(tx) {
        Some(sessions) => (sessions.find_memory_limit)(tx, device).await,
        None => Ok(None),
    }
}

/// Lists sessions of an installation or a user with this id, those that ended badly first.
pub async fn list_of_person(tx: &mut TenantTx, id: &str, app: Option<&str>) -> Result<Vec<FoundSession>> {
    let scope = PersonScope { hash: &hash_person(id), app, limit: SEARCHED_SESSIONS_LIMIT };
    match find_hook(tx) {
        Some(sessions) => (sessions.find_of_person)(tx, scope).await,
        None => Ok(Vec::new()),
    }
}

fn find_hook(tx: &TenantTx) -> Option<SessionHook> {
    tx.hooks().iter().find_map(|hook| hook.measures).map(|measures| measures.sessions)
}
