//! The application: routes and layers, the same for production and tests.

use crate::feature::ApiFeature;
use crate::feature::calls::OperationCalls;
use crate::http::documents::OpenApiText;
use crate::http::observe::{bound_load, observe_request, panic_response};
use crate::http::time_limit::bound_time;
use crate::http::{answers, compress, documents};
use crate::lists::{all_tables, delegate_to_feature};
use crate::openapi;
use crate::openapi::self_contained::render_document;
use crate::operation_router::OperationRouter;
use crate::operations::{
    apps, audit_log, dead_letters, group_views, grouping_rules, groups, keys, reports, reprocess, search,
    sessions, symbols, tenants,
};
use crate::problem::{Kind, Problem, pages};
use crate::requests::wait::LONGEST_WAIT;
use crate::state::{Api, ApiParts};
use axum::extract::State;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router};
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use serde_json::Value;
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use unslide_runtime::Shutdown;
use utoipa::openapi::OpenApi;

/// Builds the application.
pub fn build_app(api: Api, features: &[ApiFeature]) -> Router {
    let operations = build_operations(&api, features).into_router();
    let documented = features.to_vec();
    let document = OpenApiText::from_build(Box::new(move || build_document(&documented)));
    let plain = Router::new()
        .route("/openapi.json", get(documents::get_openapi).layer(Extension(document)))
        .route("/schemas/{name}", get(documents::get_schema))
        .route("/docs", get(documents::reading_page))
        .route("/problems", get(pages::render_list))
        .route("/problems/{slug}", get(pages::render_kind));
    // Data of tenants: no cache may keep it, and no browser may take it for a page.
    let no_store = SetResponseHeaderLayer::overriding(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let no_sniff =
        SetResponseHeaderLayer::overriding(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let limit = Duration::from_secs(api.parts().capacity.limits.request_seconds);
    let mut outside = Router::new();
    for feature in features {
        outside = outside.merge(feature.routes.clone());
    }
    let sites: Vec<_> = features.iter().filter_map(|feature| feature.site).collect();
    let mut site = Router::new();
    for build_site in &sites {
        site = site.merge(build_site(&api, features));
    }
    if sites.is_empty() {
        site = site.route("/", get(|| async { Redirect::temporary("/docs") }));
    }
    let calls = Extension(call_operations(&api, operations.clone()));
    let parts = api.parts();
    let requests = operations
        .merge(outside.layer(from_fn_with_state(limit, bound_time)).layer(calls))
        .layer(no_store)
        .merge(plain)
        .merge(site)
        .fallback(|| async { Problem::from_kind(Kind::NotFound).into_response() })
        .layer(from_fn_with_state(parts.capacity.clone(), answers::account_response))
        .layer(compress::compression_layer())
        .layer(from_fn(answers::hold_reservations))
        .layer(from_fn_with_state(parts.capacity.clone(), bound_load))
        .layer(CatchPanicLayer::custom(panic_response))
        .layer(from_fn_with_state(parts.observer.clone(), observe_request));
    // A balancer is no client: its checks are answered under any load, and their 503 is no failed request.
    requests.route("/readyz", get(readyz)).layer(no_sniff).with_state(api)
}

/// Returns the operations for features that call them from within, with the layers that a request over the network has.
fn call_operations(api: &Api, operations: Router<Api>) -> OperationCalls {
    let parts = api.parts();
    let operations = operations
        .fallback(|| async { Problem::from_kind(Kind::NotFound).into_response() })
        .layer(from_fn_with_state(parts.capacity.clone(), answers::account_response))
        .layer(from_fn(answers::hold_reservations))
        .layer(from_fn_with_state(parts.capacity.clone(), bound_load))
        .layer(CatchPanicLayer::custom(panic_response))
        .layer(from_fn_with_state(parts.observer.clone(), observe_request));
    OperationCalls::new(operations.with_state(api.clone()))
}

/// Tells load balancers whether to send requests here. The admin port shows which dependencies answer.
async fn readyz(State(shutdown): State<Shutdown>) -> Response {
    match shutdown.is_announced() {
        false => "ok\n".into_response(),
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
    }
}

/// Returns the OpenAPI document of all operations, with every schema in it.
///
/// # Errors
/// Returns an error if a part of it is no JSON.
pub fn build_document(features: &[ApiFeature]) -> serde_json::Result<Value> {
    render_document(&merge_documents(features))
}

fn merge_documents(features: &[ApiFeature]) -> OpenApi {
    let mut document = openapi::build_base();
    for routes in [
        symbols::upload_routes(),
        symbols::waiting_routes(),
        symbols::symbol_routes(),
        reports::waiting_routes(),
        reports::report_routes(),
        sessions::session_routes(),
        search::search_routes(),
        reprocess::reprocess_routes(),
        apps::app_routes(),
        groups::group_routes(),
        group_views::group_view_routes(),
        grouping_rules::grouping_rule_routes(),
        tenants::tenant_routes(),
        keys::key_routes(),
        audit_log::audit_log_routes(),
        dead_letters::dead_letter_routes(),
    ] {
        document.merge(routes.build_document());
    }
    for feature in features {
        document.merge(feature.operations.build_document());
    }
    let tables: Vec<_> = all_tables(features.iter().map(|feature| feature.tables)).collect();
    for forms in features.iter().filter_map(|feature| feature.forms) {
        (forms.document)(&mut document, &tables);
    }
    document
}

fn build_operations(api: &Api, features: &[ApiFeature]) -> OperationRouter {
    let ApiParts { capacity, lists, .. } = api.parts();
    let limits = &capacity.limits;
    let within = |seconds| from_fn_with_state(Duration::from_secs(seconds), bound_time);
    let mut answering = OperationRouter::new()
        .merge(symbols::symbol_routes())
        .merge(reports::report_routes())
        .merge(sessions::session_routes())
        .merge(search::search_routes())
        .merge(reprocess::reprocess_routes())
        .merge(apps::app_routes())
        .merge(groups::group_routes())
        .merge(group_views::group_view_routes())
        .merge(keys::key_routes())
        .merge(audit_log::audit_log_routes())
        .merge(dead_letters::dead_letter_routes());
    for feature in features {
        answering = answering.merge(feature.operations.clone());
    }
    answering = answering.layer(within(limits.request_seconds));
    for forms in &lists.forms {
        answering = answering.layer(from_fn_with_state((lists.clone(), *forms), delegate_to_feature));
    }
    let waiting = OperationRouter::new()
        .merge(symbols::waiting_routes())
        .merge(reports::waiting_routes())
        .layer(within(limits.request_seconds + LONGEST_WAIT.as_secs()));
    let announcing = OperationRouter::new()
        .merge(tenants::tenant_routes())
        .merge(grouping_rules::grouping_rule_routes())
        .layer(within(limits.request_seconds + limits.announce_seconds));
    // An upload limits its own time, and cleans up at its end.
    answering.merge(waiting).merge(announcing).merge(symbols::upload_routes())
}
