//! `GET /v1/costs`: what was used by tenant and day.

use crate::settings::Prices;
use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use time::{Date, Duration};
use unslide_api::feature::OperationRouter;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, Kind, List, Page, PageQuery, Problem, Query, number_and_id, parse_day, parse_parameter,
    position_by_number, problems,
};
use unslide_api::feature::site::Operator;
use unslide_api::routes;
use unslide_model::TenantId;
use unslide_store::resource_uses::{DailyUse, UsesFilter, list_daily_uses};
use utoipa::{IntoParams, ToSchema};

/// The path of the operation.
pub const COSTS_PATH: &str = "/v1/costs";
/// Days of a list without `from`.
const USUAL_DAYS: i64 = 31;
/// The place of the rest of a day in a cursor. No slug has this character.
const REST: &str = "~";

/// Returns the routes.
pub fn routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(list_costs))
}

/// Which days and tenants to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CostsQuery {
    /// The first day (UTC); 31 days with the last one if absent.
    #[param(example = "2026-11-01")]
    pub from: Option<String>,
    /// The last day (UTC); today if absent.
    #[param(example = "2026-11-30")]
    pub to: Option<String>,
    /// Slug of one tenant.
    #[param(example = "acme")]
    pub tenant: Option<String>,
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

/// What a tenant used in a day (UTC), or what no tenant caused, with its price.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DailyCost {
    /// What was used.
    #[serde(flatten)]
    pub used: DailyUse,
    /// The price by the operator's price list, rounded to millionths. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

problems!(Failures: InvalidParameter);

/// List costs by tenant and day
///
/// The newest day first, then by tenant. The last entry of a day has no tenant: what no tenant caused, or what could not be
/// told, so that the entries of a day add up to what all processes used. Days are kept for 400 days, those of a deleted tenant not.
#[utoipa::path(get, path = "/v1/costs", tag = "costs", operation_id = "list_costs", params(CostsQuery),
    responses((status = 200, description = "A page of costs.", body = Page<DailyCost>), Failures),
    security(("key" = ["operator"])))]
async fn list_costs(
    State(storage): State<Arc<Storage>>,
    Extension(prices): Extension<Arc<Prices>>,
    access: Access<Operator>,
    Query(query): Query<CostsQuery>,
) -> Result<Json<Page<DailyCost>>, Problem> {
    let to = parse_day("to", query.to.as_deref())?.unwrap_or_else(|| storage.clock.now().date());
    let from = parse_day("from", query.from.as_deref())?;
    let from = from.unwrap_or_else(|| to.saturating_sub(Duration::days(USUAL_DAYS - 1)));
    if to < from {
        return Err(Problem::new(Kind::InvalidParameter, "to: lies before from"));
    }
    let tenant = query.tenant.as_deref().map(|text| parse_parameter("tenant", text)).transpose()?;
    let filter = UsesFilter { from, to, tenant };
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let list = List::for_operation(access.tenant(), "list_costs", &filter);
    let after = page.read_cursor(list, read_position)?;
    let limit = page.check_limit()?;
    let found = list_daily_uses(&storage.store, &filter, after.as_ref(), limit + 1).await?;
    let costs = found.into_iter().map(|used| DailyCost { price: prices.price(&used.amounts()), used });
    Ok(Json(Page::from_rows(costs.collect(), limit, list, |last: &DailyCost| {
        let tenant = last.used.tenant.as_ref().map_or(REST, TenantId::as_str);
        position_by_number(i64::from(last.used.day.to_julian_day()), tenant)
    })))
}

fn read_position(position: &str) -> Option<(Date, Option<TenantId>)> {
    let (day, tenant) = number_and_id::<String>(position)?;
    let tenant = if tenant == REST { None } else { Some(TenantId::new(&tenant).ok()?) };
    Some((Date::from_julian_day(i32::try_from(day).ok()?).ok()?, tenant))
}
