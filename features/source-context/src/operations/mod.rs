//! The operations on source files.

mod context;
pub mod file;
pub mod switch;
mod upload;

use unslide_api::feature::Api;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Returns the routes with short bodies.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(switch::get_sources, switch::set_sources))
        .routes(routes!(context::get_source_context))
        .routes(routes!(file::get_source_file))
}

/// Returns the route that takes bundles.
pub fn upload_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(upload::upload_source_bundle))
}
