//! `GET /v1/apps/{app}/health/figure`.

use super::prelude::*;
use crate::store::figures::watched::{FigurePoint, list_points};
use crate::store::hours::HOURS_RETENTION;
use time::{Date, Duration, OffsetDateTime};
use unslide_model::timestamp::begin_of_hour;
use unslide_store::watched_figures::{FigurePeriod, FigureQuery};

/// Days of a figure by day.
const FIGURE_DAYS: i64 = 28;

unslide_model::words! {
    /// The step of a figure over time.
    #[derive(Default, ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum FigureStep {
        /// The last 48 hours.
        #[default]
        Hour = "hour",
        /// The last 28 days (UTC).
        Day = "day",
    }
}

impl FigureStep {
    /// Returns the hours or days up to now.
    pub fn period(self, now: OffsetDateTime) -> FigurePeriod {
        match self {
            FigureStep::Hour => {
                let to = begin_of_hour(now) + Duration::HOUR;
                FigurePeriod::Hours(to - HOURS_RETENTION, to)
            }
            FigureStep::Day => {
                let to = now.date().saturating_add(Duration::DAY);
                FigurePeriod::Days(days_before(to), to)
            }
        }
    }
}

fn days_before(to: Date) -> Date {
    to.saturating_sub(Duration::days(FIGURE_DAYS))
}

/// The query for one figure over time.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FigureOverTime {
    /// Name of a figure that a rule can watch, such as `launch_time_p90`.
    #[param(example = "launch_time_p90")]
    pub figure: String,
    /// `hour`, which is the default, or `day`.
    #[serde(default)]
    #[param(inline)]
    pub by: FigureStep,
    /// The only version to count; all versions if absent.
    pub version: Option<String>,
    /// The only host to count, for figures of requests; all hosts together if absent.
    pub host: Option<String>,
    /// The only endpoint that counts, for figures of requests, in place of a host: method, host and template of the path.
    #[param(max_length = 600, example = "POST api.example.com/payment")]
    pub endpoint: Option<String>,
}

/// One figure of an app over time.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppFigure {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Name of the figure.
    #[schema(example = "launch_time_p90")]
    pub figure: String,
    /// The hours or days in which something was counted, the newest first.
    #[schema(max_items = 48)]
    pub points: Vec<TimedFigure>,
}

/// A figure in one hour or on one day.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TimedFigure {
    /// The beginning of the hour or the day (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub begin: OffsetDateTime,
    /// The value, 0 to 1 for a share. Quantiles are at most 1 % off.
    pub value: f64,
    /// `1` for shares, else the unit of the metric.
    #[schema(example = "ms")]
    pub unit: &'static str,
    /// Independent observations that it is made of.
    pub observations: f64,
}

impl From<FigurePoint> for TimedFigure {
    fn from(point: FigurePoint) -> TimedFigure {
        let FigurePoint { begin, measured } = point;
        TimedFigure { begin, value: measured.value, unit: measured.unit, observations: measured.observations }
    }
}

problems!(Failures: InvalidParameter, NotFound);

/// Get a figure over time
///
/// Returns a figure that rules can watch by hour, for 48 hours, or by day. A session counts in the hour in which it
/// began, a metric payload in the hour in which its period ended.
#[utoipa::path(get, path = "/v1/apps/{app}/health/figure", tag = "apps", operation_id = "get_figure",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"), FigureOverTime),
    responses((status = 200, description = "The figure.", body = AppFigure), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_figure(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
    Query(query): Query<FigureOverTime>,
) -> Result<Json<AppFigure>, Problem> {
    let none = "nothing of this figure came for these hours or days; see `by`";
    if !access.can_see(&app) {
        return Err(Problem::new(Kind::NotFound, none));
    }
    let whole = |text: String| text.replace('\0', "");
    let app = whole(app);
    let [version, host, endpoint] = [query.version, query.host, query.endpoint].map(|text| text.map(whole));
    let mut tx = storage.tenant(access.tenant()).await?;
    let wanted = FigureQuery {
        figure: &query.figure,
        app: &app,
        version: version.as_deref(),
        host: host.as_deref(),
        endpoint: endpoint.as_deref(),
        period: query.by.period(storage.clock.now()),
        before: None,
    };
    let Some(points) = list_points(&mut tx, wanted).await? else {
        let detail = "figure: a share such as out_of_memory_sessions, or a metric with a quantile such as launch_time_p90";
        return Err(Problem::new(Kind::InvalidParameter, detail));
    };
    if points.is_empty() {
        return Err(Problem::new(Kind::NotFound, none));
    }
    let points = points.into_iter().map(TimedFigure::from).collect();
    Ok(Json(AppFigure { app, figure: query.figure, points }))
}
