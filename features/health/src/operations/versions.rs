//! `GET /v1/apps/{app}/health/versions`.

use super::period::check_days;
use super::prelude::*;
use crate::store::figures;
use crate::store::figures::day;
use crate::store::figures::signals::{self, ComparedVersions, VersionSignals};
use crate::store::memory_exceptions::{MemoryEndCheck, check_memory_ends};
use time::Date;
use unslide_store::app_signals::{self, DroppedSignal};

/// The query for an app's versions.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VersionsQuery {
    /// Days of the period, 1 to 90; 14 if absent. The last one is today (UTC).
    #[param(minimum = 1, maximum = 90)]
    pub days: Option<u32>,
    /// The version that all others are compared with; each with the next older one if absent.
    #[param(example = "3.1.0")]
    pub compare_with: Option<String>,
    /// The only versions to return, with commas between; all if absent.
    #[param(max_length = 1024, example = "3.1.0,3.0.2")]
    pub versions: Option<String>,
}

/// How the versions of an app do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VersionsHealth {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The first day of the period (UTC).
    #[serde(with = "day")]
    pub from: Date,
    /// The last day of the period (UTC): today, which is not over.
    #[serde(with = "day")]
    pub to: Date,
    /// The versions with sessions or metrics in the period, the newest first; those with the most sessions if there
    /// are more than 50.
    #[schema(max_items = 50)]
    pub versions: Vec<VersionSignals>,
    /// The first day that metrics are made of (UTC) if the period has more than 50,000 rows of them: by version, day and
    /// metric. Absent where all are read.
    #[serde(with = "day::option", skip_serializing_if = "Option::is_none")]
    pub metrics_from: Option<Date>,
    /// Ends for lack of memory that MetricKit reported in the period, and how often they were inferred before. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_ends: Option<MemoryEndCheck>,
    /// Events that were not kept in the period, because the app's settings switch them off or keep a sample of them.
    #[schema(max_items = 6)]
    pub dropped: Vec<DroppedSignal>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Compare an app's versions
///
/// Returns for each version the shares of sessions without a crash and of those that ended out of memory, launch and hang
/// times, processor time, energy, disk writes, frames and requests. Each has its change since the version before, or since the chosen one, and
/// whether that is more than noise. The figures come from `POST /v1/sessions` and `POST /v1/metrics`.
#[utoipa::path(get, path = "/v1/apps/{app}/health/versions", tag = "apps", operation_id = "compare_versions",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"), VersionsQuery),
    responses((status = 200, description = "The versions' figures.", body = VersionsHealth), Failures),
    security(("key" = ["reports:read"])))]
pub async fn compare_versions(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
    Query(query): Query<VersionsQuery>,
) -> Result<Json<VersionsHealth>, Problem> {
    let days = check_days(query.days)?;
    let none =
        "no session events and no metrics of this app came for these days; send them with POST /v1/metrics";
    if !access.can_see(&app) {
        return Err(Problem::new(Kind::NotFound, none));
    }
    let app = app.replace('\0', "");
    let [period, _] = figures::compared_periods(storage.clock.now().date(), days);
    let mut tx = storage.tenant(access.tenant()).await?;
    let chosen = query.compare_with.as_deref();
    let compared = signals::compare_with_version(&mut tx, &app, period, chosen).await?;
    let dropped = app_signals::list_drops(&mut tx, &app, period).await?;
    let memory_ends = check_memory_ends(&mut tx, &app, period).await?;
    if compared.versions.is_empty() && dropped.is_empty() && memory_ends.is_none() {
        return Err(Problem::new(Kind::NotFound, none));
    }
    if chosen.is_some_and(|chosen| compared.versions.iter().all(|version| version.version != chosen)) {
        let detail = "compare_with: the app has no such version in this period";
        return Err(Problem::new(Kind::InvalidParameter, detail));
    }
    let to = period.1.previous_day().unwrap_or(period.1);
    let ComparedVersions { mut versions, metrics_from } = compared;
    if let Some(wanted) = &query.versions {
        let wanted: Vec<&str> = wanted.split(',').map(str::trim).collect();
        versions.retain(|version| wanted.contains(&version.version.as_str()));
    }
    Ok(Json(VersionsHealth { app, from: period.0, to, versions, metrics_from, memory_ends, dropped }))
}
