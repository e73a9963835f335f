//! The operations on source files.

mod context;
pub mod file;
pub mod switch;
mod upload;

use axum::middleware::from_fn;
use unslide_api::feature::{Api, lift_time_bound};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Returns the routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    upload_routes()
        .routes(routes!(switch::get_sources, switch::set_sources))
        .routes(routes!(context::get_source_context))
        .routes(routes!(file::get_source_file))
}

/// Returns the route that takes bundles.
fn upload_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(upload::upload_source_bundle)).layer(from_fn(lift_time_bound))
}
