//! `GET /v1/system-symbols/coverage`: the builds that lack names.

use super::store::{CoverageFilter, count_reports, list_images};
use super::{MAX_REPORTS, join_builds};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use time::Duration;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Kind, Problem, Query, ReportsRead, check_texts, problems};
use unslide_api::routes;
use unslide_system_symbols_formats::SystemSymbolCoverage;
use utoipa::IntoParams;

const MAX_DAYS: u32 = 90;
/// Days of a period if the request has none.
const DEFAULT_DAYS: u32 = 30;
const MAX_APP_BYTES: usize = 255;

/// The period and the app of the reports to read.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CoverageQuery {
    /// Days of the period up to now, 1 to 90; 30 if absent.
    #[param(minimum = 1, maximum = 90)]
    pub days: Option<u32>,
    /// Bundle identifier; reports of all apps if absent.
    #[param(example = "com.example.shop", max_length = 255)]
    pub app: Option<String>,
}

/// Returns the routes of the feature.
pub fn routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(get_system_symbol_coverage))
}

problems!(Failures: InvalidParameter);

/// See which builds lack system symbols
///
/// Returns for each build of the operating systems in recent reports how many of its system images have names.
/// `unslide system-symbols import` adds names. At most the 5,000 most recent reports of the period are read.
#[utoipa::path(get, path = "/v1/system-symbols/coverage", tag = "system-symbols",
    operation_id = "get_system_symbol_coverage", params(CoverageQuery),
    responses((status = 200, description = "The builds.", body = SystemSymbolCoverage), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_system_symbol_coverage(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Query(query): Query<CoverageQuery>,
) -> Result<Json<SystemSymbolCoverage>, Problem> {
    let days = query.days.unwrap_or(DEFAULT_DAYS);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(Problem::new(Kind::InvalidParameter, format!("days: 1 to {MAX_DAYS}")));
    }
    check_texts(Kind::InvalidParameter, MAX_APP_BYTES, [("app", query.app.as_deref())])?;
    let app = access.restrict_app(query.app)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let from = tx.now() - Duration::days(days.into());
    let filter = CoverageFilter { from, app: app.as_deref() };
    let counted = count_reports(&mut tx, &filter).await?;
    let images = list_images(&mut tx, &filter).await?;
    tx.rollback();
    let reports = counted.iter().map(|build| build.reports).sum();
    let is_sample = reports >= u64::from(MAX_REPORTS);
    Ok(Json(SystemSymbolCoverage { from, reports, is_sample, items: join_builds(counted, images) }))
}
