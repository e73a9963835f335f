//! `/console/export/…`: the lists of pages, which the layer of exports makes files of.

use crate::console::link::{EXPORTED_GROUPS, EXPORTED_REPORTS, EXPORTED_VERSIONS};
use crate::console::pages::group_pages::groups;
use crate::console::pages::report_pages::reports;
use crate::console::prelude::*;
use crate::export::{ExportFormat, PAGE, export};
use crate::http::time_limit::bound_time;
use crate::operations::apps::versions::list_versions;
use crate::operations::groups::list::{GroupQuery, list_groups};
use crate::operations::reports::list::{ReportQuery, list_reports};
use crate::requests::page::PageQuery;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::{Extension, Router};
use std::time::Duration;

/// The routes; each page of a list has to be there within the limit.
pub fn routes(api: &Api, limit: Duration) -> Router<Api> {
    Router::new()
        .route(EXPORTED_GROUPS, get(page_of_groups))
        .route(EXPORTED_REPORTS, get(page_of_reports))
        .route(EXPORTED_VERSIONS, get(page_of_versions))
        .layer(from_fn_with_state(limit, bound_time))
        .layer(from_fn_with_state(api.clone(), export))
        .layer(Extension(ExportFormat::Csv))
}

async fn page_of_groups(
    api: State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<impl IntoResponse, Problem> {
    let query = GroupQuery { limit: Some(PAGE), ..groups::query(&state, api.clock.now()) };
    list_groups(api, signed.access, Query(query)).await
}

async fn page_of_reports(
    api: State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<impl IntoResponse, Problem> {
    let query = ReportQuery { limit: Some(PAGE), ..reports::query(&state) };
    list_reports(api, signed.access, Query(query)).await
}

async fn page_of_versions(
    api: State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<impl IntoResponse, Problem> {
    let app = signed.access.app(state.text("app"))?.unwrap_or_default();
    let query = PageQuery { limit: Some(PAGE), cursor: state.text("cursor") };
    list_versions(api, signed.access, Path(app), Query(query)).await
}
