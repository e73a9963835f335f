//! The pages of the console, and figures for pages of the core.

mod app_sessions;
mod figure;
mod health_rows;
mod memory_limit;
mod metric_breakdown;
mod overview;
mod prelude;
mod request_tables;
mod shares;
mod values;
mod verdicts;
mod version_column;
mod versions;

pub use app_sessions::find_app_sessions;
pub use memory_limit::find_memory_limit;
pub use overview::find_overview;
pub use version_column::find_version_column;

use crate::store::figures::watched::FIGURE_PATH;
use axum::Router;
use axum::routing::get;
use unslide_api::feature::Api;

/// The path of the page of all versions.
pub const HEALTH_PATH: &str = "/console/health";
/// The path of the page of one metric of a version.
const BREAKDOWN_PATH: &str = "/console/health/breakdown";

/// The routes of the pages.
pub fn routes() -> Router<Api> {
    Router::new()
        .route(HEALTH_PATH, get(versions::render_page))
        .route(BREAKDOWN_PATH, get(metric_breakdown::render_page))
        .route(FIGURE_PATH, get(figure::render_page))
}
