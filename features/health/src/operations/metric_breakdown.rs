//! `GET /v1/apps/{app}/health/breakdown`.

use super::period::check_days;
use super::prelude::*;
use crate::store::figures;
use crate::store::figures::metric_breakdown::{self, DimensionFigures};
use crate::store::metrics::MetricDimension;
use unslide_health_formats::MetricName;

/// The query for one metric of a version.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BreakdownQuery {
    /// The version; empty for what names none.
    #[param(example = "3.1.4")]
    pub version: String,
    /// Name of the metric, such as `launch_time`.
    #[param(example = "launch_time")]
    pub metric: String,
    /// The dimension. Only requests have metrics by `host`, `endpoint`, `result`, `protocol` and `connection`.
    #[param(inline)]
    pub by: MetricDimension,
    /// Days of the period, 1 to 90; 14 if absent. The last one is today (UTC).
    #[param(minimum = 1, maximum = 90)]
    pub days: Option<u32>,
}

/// One metric of a version by one dimension.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MetricBreakdown {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The version; empty for what names none.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// Name of the metric, such as `launch_time`.
    #[schema(value_type = String, example = "launch_time")]
    pub metric: MetricName,
    /// The unit of its values: `ms`, `B`, `ms/s`, `fps`, `J`, `ms/h`, `B/h`, `J/h` or `1/h`.
    #[schema(example = "ms")]
    pub unit: &'static str,
    /// The dimension.
    #[schema(value_type = String, example = "model")]
    pub by: MetricDimension,
    /// Figures of each value of the dimension, those with the most observations first. Observations that name none are left
    /// out.
    #[schema(max_items = 200)]
    pub values: Vec<DimensionFigures>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Break a metric of a version down
///
/// Returns the median and the 5th and 95th percentile of one metric by device model, by OS version, by state of the app or, of requests, by host,
/// endpoint, result, protocol or connection; of bytes also their sum, and of `requests` the share that failed. Clients send metrics with `POST /v1/metrics`.
#[utoipa::path(get, path = "/v1/apps/{app}/health/breakdown", tag = "apps", operation_id = "break_down_metric",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"), BreakdownQuery),
    responses((status = 200, description = "The figures.", body = MetricBreakdown), Failures),
    security(("key" = ["reports:read"])))]
pub async fn break_down_metric(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
    Query(query): Query<BreakdownQuery>,
) -> Result<Json<MetricBreakdown>, Problem> {
    let days = check_days(query.days)?;
    let Some(metric) = MetricName::parse(&query.metric) else {
        let known = MetricName::ALL.map(MetricName::as_str).join(", ");
        return Err(Problem::new(Kind::InvalidParameter, format!("metric: one of {known}")));
    };
    let none = "no payload of this version on these days has the metric with a value of `by`: payloads with `model` and \
                `os_version` of the device come with POST /v1/metrics, and `host` is of requests alone";
    if !access.can_see(&app) {
        return Err(Problem::new(Kind::NotFound, none));
    }
    let (app, version) = (app.replace('\0', ""), query.version.replace('\0', ""));
    let [period, _] = figures::compared_periods(storage.clock.now().date(), days);
    let mut tx = storage.tenant(access.tenant()).await?;
    let values = metric_breakdown::break_down(&mut tx, &app, &version, metric, query.by, period).await?;
    if values.is_empty() {
        return Err(Problem::new(Kind::NotFound, none));
    }
    Ok(Json(MetricBreakdown { app, version, metric, unit: metric.unit().as_str(), by: query.by, values }))
}
