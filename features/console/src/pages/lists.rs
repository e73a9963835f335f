//! The lists of pages without the page around them, for features that return them in other forms.

use crate::pages::group_pages::group_filters;
use crate::pages::report_pages::report_filters;
use crate::prelude::*;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use std::time::Duration;
use unslide_api::feature::lists::Lists;
use unslide_api::feature::lists::{ListForms, PAGE_ENTRIES, delegate_to_feature};
use unslide_api::feature::operation::PageQuery;
use unslide_api::feature::site::bound_time;
use unslide_api::feature::site::list_versions;
use unslide_api::feature::site::{GroupQuery, list_groups};
use unslide_api::feature::site::{ReportQuery, list_reports};

/// A link from a page to its list in another form.
pub struct ListLink {
    pub address: String,
    pub text: &'static str,
}

/// Returns the links to the list of a table, with these parameters.
pub fn list_links(lists: &Lists, table: &str, parameters: &[(&str, Option<&str>)]) -> Vec<ListLink> {
    let link_to = |forms: ListForms| ListLink {
        address: build_link(&format!("{}/{table}", forms.folder), parameters),
        text: forms.link,
    };
    lists.forms.iter().copied().map(link_to).collect()
}

/// Returns the routes of all forms. Each page of a list must be read within the limit.
pub fn form_routes(lists: &Arc<Lists>, limit: Duration) -> Router<Api> {
    lists.forms.iter().copied().fold(Router::new(), |routes, forms| {
        let path = |table: &str| format!("{}/{table}", forms.folder);
        let lists = Router::new()
            .route(&path("groups"), get(page_of_groups))
            .route(&path("reports"), get(page_of_reports))
            .route(&path("versions"), get(page_of_versions))
            .layer(from_fn_with_state(limit, bound_time))
            .layer(from_fn_with_state((lists.clone(), forms), delegate_to_feature));
        routes.merge(lists)
    })
}

async fn page_of_groups(
    storage: State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<impl IntoResponse, Problem> {
    let me = signed.viewer.name.as_deref();
    let query = GroupQuery {
        limit: Some(PAGE_ENTRIES),
        ..group_filters::build_query(&state, storage.clock.now(), me)
    };
    list_groups(storage, signed.access, Query(query)).await
}

async fn page_of_reports(
    storage: State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<impl IntoResponse, Problem> {
    let query = report_filters::build_query(&state, storage.clock.now());
    let query = ReportQuery { limit: Some(PAGE_ENTRIES), ..query };
    list_reports(storage, signed.access, Query(query)).await
}

async fn page_of_versions(
    storage: State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<impl IntoResponse, Problem> {
    let app = signed.access.restrict_app(state.get_text("app"))?.unwrap_or_default();
    let query = PageQuery { limit: Some(PAGE_ENTRIES), cursor: state.get_text("cursor") };
    list_versions(storage, signed.access, Path(app), Query(query)).await
}
