//! The application: routes and layers, the same for production and tests.

use crate::feature::{ApiFeature, lists};
use crate::http::observe::{bound_load, observe, panicked};
use crate::http::problem::{Kind, Problem, pages};
use crate::http::time_limit::bound_time;
use crate::http::{compress, documents};
use crate::limits::answers;
use crate::list_tables::tables;
use crate::openapi;
use crate::operations::{
    apps, audit_log, dead_letters, grouping_rules, groups, keys, reports, reprocess, sessions, symbols,
    tenants,
};
use crate::requests::wait::LONGEST_WAIT;
use crate::state::Api;
use axum::Router;
use axum::extract::State;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

/// Builds the application.
pub fn app(api: Api) -> Router {
    let (operations, _) = operations(&api).split_for_parts();
    let plain = Router::new()
        .route("/openapi.json", get(documents::openapi))
        .route("/schemas/{name}", get(documents::schema))
        .route("/docs", get(documents::reading_page))
        .route("/problems", get(pages::list))
        .route("/problems/{slug}", get(pages::one));
    // Data of tenants: no cache may keep it, and no browser may take it for a page.
    let no_store = SetResponseHeaderLayer::overriding(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let no_sniff =
        SetResponseHeaderLayer::overriding(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let limit = Duration::from_secs(api.limits.request_seconds);
    let mut outside = Router::new();
    for feature in &api.features {
        outside = outside.merge(feature.routes.clone());
    }
    let sites: Vec<_> = api.features.iter().filter_map(|feature| feature.site).collect();
    let mut site = Router::new();
    for build_site in &sites {
        site = site.merge(build_site(&api));
    }
    if sites.is_empty() {
        site = site.route("/", get(|| async { Redirect::temporary("/docs") }));
    }
    let requests = operations
        .merge(outside.layer(from_fn_with_state(limit, bound_time)))
        .layer(no_store)
        .merge(plain)
        .merge(site)
        .fallback(|| async { Problem::bare(Kind::NotFound).into_response() })
        .layer(from_fn_with_state(api.clone(), answers::account))
        .layer(compress::layer())
        .layer(from_fn(answers::keep))
        .layer(from_fn_with_state(api.clone(), bound_load))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(api.clone(), observe));
    // A balancer is no client: its checks are answered under any load, and their 503 is no failed request.
    requests.route("/readyz", get(readyz)).layer(no_sniff).with_state(api)
}

/// Tells load balancers whether to send requests here. The admin port shows which dependencies answer.
async fn readyz(State(api): State<Api>) -> Response {
    match api.shutdown.is_announced() {
        false => "ok\n".into_response(),
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
    }
}

/// Returns the OpenAPI document of all operations.
#[must_use]
pub fn document(features: &[ApiFeature]) -> OpenApi {
    let mut document = openapi::base(features);
    for routes in [
        symbols::upload_routes(),
        symbols::waiting_routes(),
        symbols::routes(),
        reports::waiting_routes(),
        reports::routes(),
        sessions::routes(),
        reprocess::routes(),
        apps::routes(),
        groups::routes(),
        grouping_rules::routes(),
        tenants::routes(),
        keys::routes(),
        audit_log::routes(),
        dead_letters::routes(),
    ] {
        document.merge(routes.into_openapi());
    }
    for feature in features {
        document.merge(feature.uploads.clone().into_openapi());
        document.merge(feature.operations.clone().into_openapi());
    }
    let tables: Vec<_> = tables(features).collect();
    for forms in lists::forms(features) {
        (forms.document)(&mut document, &tables);
    }
    document
}

fn operations(api: &Api) -> OpenApiRouter<Api> {
    let limits = &api.limits;
    let within = |seconds| from_fn_with_state(Duration::from_secs(seconds), bound_time);
    let mut answering = OpenApiRouter::new()
        .merge(symbols::routes())
        .merge(reports::routes())
        .merge(sessions::routes())
        .merge(reprocess::routes())
        .merge(apps::routes())
        .merge(groups::routes())
        .merge(keys::routes())
        .merge(audit_log::routes())
        .merge(dead_letters::routes());
    for feature in &api.features {
        answering = answering.merge(feature.operations.clone());
    }
    answering = answering.layer(within(limits.request_seconds));
    for forms in lists::forms(&api.features) {
        answering = answering.layer(from_fn_with_state((api.clone(), forms), lists::answer));
    }
    let waiting = OpenApiRouter::new()
        .merge(symbols::waiting_routes())
        .merge(reports::waiting_routes())
        .layer(within(limits.request_seconds + LONGEST_WAIT.as_secs()));
    let announcing = OpenApiRouter::new()
        .merge(tenants::routes())
        .merge(grouping_rules::routes())
        .layer(within(limits.request_seconds + limits.announce_seconds));
    // An upload limits its own time, and cleans up at its end.
    let mut uploads = symbols::upload_routes();
    for feature in &api.features {
        uploads = uploads.merge(feature.uploads.clone());
    }
    answering.merge(waiting).merge(announcing).merge(uploads)
}
