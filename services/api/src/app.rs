//! The application: routes and layers, the same for production and tests.

use crate::observe::{bound_load, bound_time, observe, panicked};
use crate::operations::{apps, dead_letters, keys, reports, reprocess, symbols, system, tenants};
use crate::problem::{Kind, Problem};
use crate::state::Api;
use crate::{docs, openapi};
use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

/// Builds the application.
pub fn app(api: Api) -> Router {
    let (operations, _) = operations(&api).split_for_parts();
    let plain = Router::new()
        .route("/", get(|| async { Redirect::temporary("/docs") }))
        .route("/openapi.json", get(|State(api): State<Api>| async move { api.document.response() }))
        .route("/docs", get(docs::page));
    operations
        .merge(plain)
        .fallback(|| async { Problem::bare(Kind::NotFound).into_response() })
        .layer(from_fn_with_state(api.clone(), bound_load))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(api.clone(), observe))
        .with_state(api)
}

/// The OpenAPI document of all operations.
#[must_use]
pub fn document() -> OpenApi {
    let mut document = openapi::base();
    for routes in [
        symbols::upload_routes(),
        symbols::waiting_routes(),
        symbols::routes(),
        system::upload_routes(),
        system::waiting_routes(),
        system::routes(),
        reports::routes(),
        reprocess::routes(),
        apps::routes(),
        tenants::routes(),
        keys::routes(),
        dead_letters::routes(),
    ] {
        document.merge(routes.into_openapi());
    }
    document
}

fn operations(api: &Api) -> OpenApiRouter<Api> {
    let seconds = Duration::from_secs;
    let limits = &api.limits;
    let within = |limit: Duration| from_fn_with_state(limit, bound_time);
    let answering = OpenApiRouter::new()
        .merge(symbols::routes())
        .merge(system::routes())
        .merge(reports::routes())
        .merge(reprocess::routes())
        .merge(apps::routes())
        .merge(keys::routes())
        .merge(dead_letters::routes())
        .layer(within(seconds(limits.request_seconds)));
    let waiting = OpenApiRouter::new()
        .merge(symbols::waiting_routes())
        .merge(system::waiting_routes())
        .layer(within(seconds(limits.request_seconds + limits.wait_seconds)));
    let announcing =
        tenants::routes().layer(within(seconds(limits.request_seconds + limits.announce_seconds)));
    // An upload bounds its own time, and cleans up when it is over.
    answering.merge(waiting).merge(announcing).merge(symbols::upload_routes()).merge(system::upload_routes())
}
