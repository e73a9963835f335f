//! `GET /v1/apps/{app}/network`.

use super::period::check_days;
use super::prelude::*;
use crate::store::figures;
use crate::store::figures::day;
use crate::store::figures::requests::{self, AppRequests, HostFigures, RequestFigures};
use time::Date;

/// The query for an app's requests.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NetworkQuery {
    /// The only version to count; all versions if absent.
    pub version: Option<String>,
    /// Days of the period, 1 to 90; 14 if absent. The last one is today (UTC).
    #[param(minimum = 1, maximum = 90)]
    pub days: Option<u32>,
}

/// The requests of an app by host, by endpoint, by result and by protocol.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppNetwork {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The hosts, those with the most requests first.
    #[schema(max_items = 200)]
    pub hosts: Vec<HostFigures>,
    /// The endpoints of requests with a path: method, host and template of the path.
    #[schema(max_items = 200)]
    pub endpoints: Vec<RequestFigures>,
    /// The statuses and error codes of requests that name one.
    #[schema(max_items = 200)]
    pub results: Vec<RequestFigures>,
    /// The protocols of requests that name one.
    #[schema(max_items = 200)]
    pub protocols: Vec<RequestFigures>,
    /// The first day that every list is made of (UTC) if a list of the period has more than 50,000 rows: by version, day,
    /// value and phase. Absent if all are read.
    #[serde(with = "day::option", skip_serializing_if = "Option::is_none")]
    pub from: Option<Date>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get an app's network requests
///
/// Returns the requests to each host and endpoint, and those with each status, error code and protocol: the share that
/// failed, and the median and 95th percentile of each phase and size. Clients send them with `POST /v1/metrics`.
#[utoipa::path(get, path = "/v1/apps/{app}/network", tag = "apps", operation_id = "get_network",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"), NetworkQuery),
    responses((status = 200, description = "The hosts.", body = AppNetwork), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_network(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
    Query(query): Query<NetworkQuery>,
) -> Result<Json<AppNetwork>, Problem> {
    let days = check_days(query.days)?;
    let none = "no requests of this app came for these days; send them with POST /v1/metrics";
    if !access.can_see(&app) {
        return Err(Problem::new(Kind::NotFound, none));
    }
    let (app, version) = (app.replace('\0', ""), query.version.map(|version| version.replace('\0', "")));
    let [period, _] = figures::compared_periods(api.clock.now().date(), days);
    let mut tx = api.tenant(access.tenant()).await?;
    let found = requests::compare_app_requests(&mut tx, &app, version.as_deref(), period).await?;
    if found.hosts.is_empty() {
        return Err(Problem::new(Kind::NotFound, none));
    }
    let AppRequests { hosts, endpoints, results, protocols, from } = found;
    Ok(Json(AppNetwork { app, hosts, endpoints, results, protocols, from }))
}
