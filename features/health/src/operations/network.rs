//! `GET /v1/apps/{app}/network` and its lists.

use super::period::check_days;
use super::prelude::*;
use crate::store::figures;
use crate::store::figures::day;
use crate::store::figures::requests::{
    self, AppRequests, ComparedRequests, FoldedRequests, HostFigures, RequestFigures, RequestFilter,
};
use crate::store::metrics::MetricDimension;
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

/// The query for an app's requests by one dimension.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NetworkListQuery {
    /// The only version to count; all versions if absent.
    pub version: Option<String>,
    /// `true` lists each version; `false` if absent.
    #[serde(default)]
    pub by_version: bool,
    /// Days of the period, 1 to 90; 14 if absent. The last one is today (UTC).
    #[param(minimum = 1, maximum = 90)]
    pub days: Option<u32>,
}

/// The requests of an app by host, by endpoint, by result, by protocol and by connection.
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
    /// The networks and connections of requests that say something of them. A request counts for each fact.
    #[schema(max_items = 200)]
    pub connections: Vec<RequestFigures>,
    /// The lists that do not have all requests under their own values.
    #[schema(max_items = 5)]
    pub folded: Vec<FoldedRequests>,
    /// The first day that every list is made of (UTC) if a list of the period has more than 50,000 rows: by version, day,
    /// value and phase. Absent if all are read.
    #[serde(with = "day::option", skip_serializing_if = "Option::is_none")]
    pub from: Option<Date>,
}

/// The requests of an app by one dimension.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppNetworkList {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The dimension.
    #[schema(value_type = String, example = "host")]
    pub by: MetricDimension,
    /// The values of the dimension, those with the most requests first: at most 200, or 1,000 with `by_version`.
    #[schema(max_items = 1000)]
    pub items: Vec<RequestFigures>,
    /// Requests that are not listed under their own values. Absent if all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folded: Option<FoldedRequests>,
    /// The first day that the list is made of (UTC), as of all lists together. Absent if all rows are read.
    #[serde(with = "day::option", skip_serializing_if = "Option::is_none")]
    pub from: Option<Date>,
}

problems!(Failures: InvalidParameter, NotFound);

const NO_LIST: &str = "no requests of this app came for these days, or there is no such list: host, endpoint, result, protocol, \
                       connection";
const NO_REQUESTS: &str = "no requests of this app came for these days; send them with POST /v1/metrics";

/// Get an app's network requests
///
/// Returns the requests to each host and endpoint, and those with each status, error code, protocol and kind of connection:
/// the share that failed, and the median and 95th percentile of each phase and size. Clients send them with
/// `POST /v1/metrics`.
#[utoipa::path(get, path = "/v1/apps/{app}/network", tag = "apps", operation_id = "get_network",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"), NetworkQuery),
    responses((status = 200, description = "The hosts.", body = AppNetwork), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_network(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
    Query(query): Query<NetworkQuery>,
) -> Result<Json<AppNetwork>, Problem> {
    let days = check_days(query.days)?;
    if !access.can_see(&app) {
        return Err(Problem::new(Kind::NotFound, NO_REQUESTS));
    }
    let (app, version) = (app.replace('\0', ""), query.version.map(|version| version.replace('\0', "")));
    let [period, _] = figures::compared_periods(storage.clock.now().date(), days);
    let mut tx = storage.tenant(access.tenant()).await?;
    let filter = RequestFilter { app: &app, version: version.as_deref(), period };
    let found = requests::compare_app_requests(&mut tx, filter).await?;
    if found.hosts.is_empty() {
        return Err(Problem::new(Kind::NotFound, NO_REQUESTS));
    }
    let AppRequests { hosts, endpoints, results, protocols, connections, folded, from } = found;
    let hosts = hosts.into_iter().map(HostFigures::from).collect();
    Ok(Json(AppNetwork { app, hosts, endpoints, results, protocols, connections, folded, from }))
}

/// List an app's network requests by one dimension
///
/// Returns one list of `get_network`, also as a file: by `host`, `endpoint`, `result`, `protocol` or `connection`. With
/// `by_version` each row is of one version, so that the bytes of an endpoint can be compared.
#[utoipa::path(get, path = "/v1/apps/{app}/network/{by}", tag = "apps", operation_id = "list_network",
    params(
        ("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"),
        ("by" = String, Path, description = "`host`, `endpoint`, `result`, `protocol` or `connection`.", example = "host"),
        NetworkListQuery),
    responses((status = 200, description = "The list.", body = AppNetworkList), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_network(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path((app, by)): Path<(String, String)>,
    Query(query): Query<NetworkListQuery>,
) -> Result<Json<AppNetworkList>, Problem> {
    let days = check_days(query.days)?;
    // A list that is none is one of no app: it answers and costs what another tenant's does.
    let known = MetricDimension::OF_REQUESTS.into_iter().find(|known| known.as_str() == by);
    let (by, app) = known.map_or((MetricDimension::Host, String::new()), |by| (by, app));
    if !access.can_see(&app) {
        return Err(Problem::new(Kind::NotFound, NO_LIST));
    }
    let (app, version) = (app.replace('\0', ""), query.version.map(|version| version.replace('\0', "")));
    let [period, _] = figures::compared_periods(storage.clock.now().date(), days);
    let mut tx = storage.tenant(access.tenant()).await?;
    let filter = RequestFilter { app: &app, version: version.as_deref(), period };
    let found = match query.by_version {
        true => requests::list_requests_by_version(&mut tx, filter, by).await?,
        false => requests::compare_requests(&mut tx, filter, by).await?,
    };
    let ComparedRequests { figures: items, folded, from } = found;
    if items.is_empty() {
        return Err(Problem::new(Kind::NotFound, NO_LIST));
    }
    Ok(Json(AppNetworkList { app, by, items, folded, from }))
}
