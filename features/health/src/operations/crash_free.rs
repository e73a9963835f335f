//! `GET /v1/apps/{app}/health`.

use super::period::check_days;
use super::prelude::*;
use crate::store::figures::day;
use crate::store::figures::{self, DayHealth, HealthFigures, VersionHealth, more_than_noise, shares_differ};
use time::Date;

/// The query for an app's sessions.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HealthQuery {
    /// The only version to count; all versions if absent.
    pub version: Option<String>,
    /// Days of the period, 1 to 90; 14 if absent. The last one is today (UTC).
    #[param(minimum = 1, maximum = 90)]
    pub days: Option<u32>,
}

/// How often an app crashes.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppHealth {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The first day of the period (UTC).
    #[serde(with = "day")]
    pub from: Date,
    /// The last day of the period (UTC): today, which is not over.
    #[serde(with = "day")]
    pub to: Date,
    /// Sessions and crashes of the period.
    pub period: HealthFigures,
    /// Sessions and crashes of the same number of days before it.
    pub period_before: HealthFigures,
    /// The shares of the two periods that differ by more than chance explains.
    pub more_than_noise: SignificantChanges,
    /// Days of the period with sessions, the newest first.
    #[schema(max_items = 90)]
    pub days: Vec<DayHealth>,
    /// The versions with the most sessions in the period.
    #[schema(max_items = 50)]
    pub versions: Vec<VersionHealth>,
}

/// Whether a change is more than noise: a two-proportion z-test at 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SignificantChanges {
    /// True if `crash_free_sessions` differs by more than noise.
    pub crash_free_sessions: bool,
    /// True if `crash_free_installations` differs by more than noise; its counts are approximate. False if only a
    /// part of the sessions was kept.
    pub crash_free_installations: bool,
    /// True if `crash_free_users` differs by more than noise. False if only a part of the sessions was kept.
    pub crash_free_users: bool,
}

impl SignificantChanges {
    pub fn between(now: &HealthFigures, before: &HealthFigures) -> SignificantChanges {
        let sessions = |of: &HealthFigures| of.independent(of.crashed_of_sessions());
        // If a period covers only a part of the sessions, fewer installations and users have crashed: the
        // share depends on the size of the part.
        let whole = now.is_whole() && before.is_whole();
        SignificantChanges {
            crash_free_sessions: shares_differ(sessions(now), sessions(before)),
            crash_free_installations: whole
                && more_than_noise(now.crashed_of_installations(), before.crashed_of_installations()),
            crash_free_users: whole && more_than_noise(now.crashed_of_users(), before.crashed_of_users()),
        }
    }
}

problems!(Failures: InvalidParameter, NotFound);

/// Get an app's crash-free shares
///
/// Returns the shares of sessions, installations and users without a crash: of a period and the one before it, by
/// day and by version. Installations and users are counted approximately, with a standard error of 1.6 %. Sessions
/// are sent with `POST /v1/sessions`.
#[utoipa::path(get, path = "/v1/apps/{app}/health", tag = "apps", operation_id = "get_health",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"), HealthQuery),
    responses((status = 200, description = "The app's figures.", body = AppHealth), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_health(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
    Query(query): Query<HealthQuery>,
) -> Result<Json<AppHealth>, Problem> {
    let days = check_days(query.days)?;
    let none = || {
        let detail = "this app has no session events on these days; send them with POST /v1/sessions";
        Problem::new(Kind::NotFound, detail)
    };
    if !access.can_see(&app) {
        return Err(none());
    }
    let (app, version) = (app.replace('\0', ""), query.version.map(|version| version.replace('\0', "")));
    let [now, before] = figures::compared_periods(storage.clock.now().date(), days);
    let of = (Some(app.as_str()), version.as_deref());
    let mut tx = storage.tenant(access.tenant()).await?;
    let period = figures::period_figures(&mut tx, of, now).await?;
    let period_before = figures::total_figures(&mut tx, of, before).await?;
    let versions = figures::most_used_versions(&mut tx, &app, version.as_deref(), now).await?;
    let versions = figures::version_figures(&mut tx, &app, &versions, now).await?;
    if period.total.sessions == 0 && period_before.sessions == 0 {
        return Err(none());
    }
    Ok(Json(AppHealth {
        more_than_noise: SignificantChanges::between(&period.total, &period_before),
        app,
        from: now.0,
        to: now.1.previous_day().unwrap_or(now.1),
        period: period.total,
        period_before,
        days: period.days,
        versions,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installations_and_users_are_not_compared_where_sessions_are_sampled() {
        let of = |crashed, squares| HealthFigures {
            sessions: 10_000,
            installations: 10_000,
            crashed_installations: crashed,
            users: 10_000,
            crashed_users: crashed,
            squares,
            ..HealthFigures::default()
        };
        let differ = |now: HealthFigures, before: HealthFigures| {
            let changes = SignificantChanges::between(&now, &before);
            assert_eq!(changes.crash_free_installations, changes.crash_free_users);
            changes.crash_free_users
        };
        assert!(differ(of(100, 10_000), of(1_000, 10_000)));
        assert!(!differ(of(100, 100_000), of(1_000, 10_000)));
        assert!(!differ(of(100, 10_000), of(1_000, 100_000)));
    }
}
