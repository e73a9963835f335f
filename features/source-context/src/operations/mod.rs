//! The operations on source files.

mod context;
pub mod file;
pub mod switch;
mod upload;

use axum::middleware::from_fn;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::lift_time_bound;
use unslide_api::routes;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    upload_routes()
        .routes(routes!(switch::get_sources, switch::set_sources))
        .routes(routes!(context::get_source_context))
        .routes(routes!(file::get_source_file))
}

/// Returns the route that takes bundles.
fn upload_routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(upload::upload_source_bundle)).layer(from_fn(lift_time_bound))
}
