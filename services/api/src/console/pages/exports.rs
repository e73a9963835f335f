//! `/console/export/…`: the lists of pages as CSV files.

use crate::console::bar::PageState;
use crate::console::pages::group_pages::groups;
use crate::console::pages::report_pages::reports;
use crate::console::session::SignedIn;
use crate::export::{ExportFormat, ExportRequest, PAGE, Pages, table};
use crate::http::problem::{Kind, Problem};
use crate::operations::apps::versions::list_versions;
use crate::operations::groups::list::{GroupQuery, list_groups};
use crate::operations::reports::list::{ReportQuery, list_reports};
use crate::requests::access::{Access, ReportsRead};
use crate::requests::input::{Path, Query};
use crate::requests::page::{Page, PageQuery};
use crate::state::Api;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, State};
use axum::response::Response;
use http::request::Parts;
use serde::Serialize;

pub const GROUPS: &str = "/console/export/groups";
pub const REPORTS: &str = "/console/export/reports";
pub const VERSIONS: &str = "/console/export/versions";

/// `GET /console/export/groups`.
pub async fn groups(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
    parts: Parts,
) -> Result<Response, Problem> {
    let list = move |api, access, cursor| {
        let query = GroupQuery { limit: Some(PAGE), cursor, ..groups::query(&state) };
        list_groups(api, access, Query(query))
    };
    Box::pin(csv(api, (signed.access, parts), "/v1/groups", list)).await
}

/// `GET /console/export/reports`.
pub async fn reports(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
    parts: Parts,
) -> Result<Response, Problem> {
    let list = move |api, access, cursor| {
        let query = ReportQuery { limit: Some(PAGE), cursor, ..reports::query(&state) };
        list_reports(api, access, Query(query))
    };
    Box::pin(csv(api, (signed.access, parts), "/v1/reports", list)).await
}

/// `GET /console/export/versions`.
pub async fn versions(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
    parts: Parts,
) -> Result<Response, Problem> {
    let app = signed.access.app(state.text("app"))?.unwrap_or_default();
    let list = move |api, access, cursor| {
        let query = PageQuery { limit: Some(PAGE), cursor };
        list_versions(api, access, Path(app.clone()), Query(query))
    };
    Box::pin(csv(api, (signed.access, parts), "/v1/apps/{app}/versions", list)).await
}

/// A list as a CSV file; `path` is that of its operation, which `list` asks for the page at a cursor.
async fn csv<T, F, R>(
    api: Api,
    (access, parts): (Access<ReportsRead>, Parts),
    path: &str,
    list: F,
) -> Result<Response, Problem>
where
    T: Serialize,
    F: Fn(State<Api>, Access<ReportsRead>, Option<String>) -> R + Send + 'static,
    R: Future<Output = Result<Json<Page<T>>, Problem>> + Send,
{
    let table = table(path).ok_or_else(|| Problem::internal("the list has no columns"))?;
    let tenant = access.tenant().clone();
    let Json(first) = list(State(api.clone()), access, None).await?;
    let first = serde_json::to_vec(&first).map_err(Problem::internal)?;
    let wanted = ExportRequest { format: ExportFormat::Csv, table, limit: None };
    wanted.answer(&api, &tenant, first.into(), ListPages { api: api.clone(), parts, list }).await
}

/// The pages of a list after the first. Each asks for the session anew, as a request of its own would.
struct ListPages<F> {
    api: Api,
    parts: Parts,
    list: F,
}

impl<T, F, R> Pages for ListPages<F>
where
    T: Serialize,
    F: Fn(State<Api>, Access<ReportsRead>, Option<String>) -> R + Send + 'static,
    R: Future<Output = Result<Json<Page<T>>, Problem>> + Send,
{
    async fn page(&mut self, cursor: Option<String>) -> Result<Bytes, Problem> {
        let slot = self.api.permits.slot()?;
        let mut parts = self.parts.clone();
        parts.extensions.insert(slot.clone());
        let signed = SignedIn::<ReportsRead>::from_request_parts(&mut parts, &self.api).await;
        let signed = signed.map_err(|refused| {
            let problem = refused.extensions().get::<Problem>().cloned();
            problem.unwrap_or_else(|| Problem::bare(Kind::Unauthorized))
        })?;
        let page = (self.list)(State(self.api.clone()), signed.access, cursor).await;
        slot.release();
        let Json(page) = page?;
        Ok(serde_json::to_vec(&page).map_err(Problem::internal)?.into())
    }
}
