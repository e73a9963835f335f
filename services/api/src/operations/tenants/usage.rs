//! `GET /v1/tenant-usage`. Not below `/v1/tenants`, because any word there may be the slug of a tenant.

use crate::operations::prelude::*;
use crate::requests::page::{number_and_id, position_by_number};
use unslide_model::TenantId;
use unslide_store::figures::{self, FigureOrder, TenantFigures};

/// The order of the list, and the part of it to answer.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TenantUsageQuery {
    /// `reports` of the last hour, `deferred` records, bytes of `symbols`, or `full` for the share of the limit on symbols
    /// that is used, the largest first; `reports` if absent.
    #[param(example = "full")]
    pub sort: Option<String>,
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// List the usage of tenants
///
/// Lists the figures of each tenant beside its limits, the largest first. Deleted tenants are left out. Figures change
/// while you read pages: a tenant that moves in the order may be missing or be listed twice.
#[utoipa::path(get, path = "/v1/tenant-usage", tag = "tenants", operation_id = "list_tenant_usage",
    params(TenantUsageQuery),
    responses((status = 200, description = "A page of tenants.", body = Page<TenantFigures>), Failures),
    security(("key" = ["operator"])))]
pub async fn list_tenant_usage(
    State(storage): State<Arc<Storage>>,
    access: Access<Operator>,
    Query(query): Query<TenantUsageQuery>,
) -> Result<Json<Page<TenantFigures>>, Problem> {
    let order = parse_order(query.sort.as_deref())?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let list = List::for_operation(access.tenant(), "list_tenant_usage", &order);
    let limit = page.check_limit()?;
    let after: Option<(i64, TenantId)> = page.read_cursor(list, number_and_id)?;
    let default_limit = storage.capacity.tenants.symbol_bytes;
    let found =
        figures::list_figures(&storage.store, order, default_limit, after.as_ref(), limit + 1).await?;
    let position =
        |last: &TenantFigures| position_by_number(i64::try_from(last.rank).unwrap_or(i64::MAX), &last.id);
    Ok(Json(Page::from_rows(found, limit, list, position)))
}

fn parse_order(sort: Option<&str>) -> Result<FigureOrder, Problem> {
    let Some(sort) = sort else { return Ok(FigureOrder::Reports) };
    FigureOrder::parse(sort)
        .ok_or_else(|| Problem::new(Kind::InvalidParameter, "sort: reports, deferred, symbols or full"))
}
