//! The pages of the console, and figures for pages of the core.

mod figure;
mod health_rows;
mod memory_ends;
mod memory_exception_panel;
mod metric_breakdown;
mod overview;
mod prelude;
mod request_tables;
mod shares;
mod values;
mod verdicts;
mod version_column;
mod version_panel;
mod versions;

use crate::store::figures::watched::FIGURE_PATH;
use axum::Router;
use axum::routing::get;
use unslide_api::feature::Api;
use unslide_api::feature::panels::{PanelSection, PanelSlot};
use unslide_store::{HookFuture, TenantTx};

/// The path of the page of all versions.
pub const HEALTH_PATH: &str = "/console/health";
/// The path of the page of one metric of a version.
const BREAKDOWN_PATH: &str = "/console/health/breakdown";

/// Shows figures on the overview, a column in the list of versions, the health of a version on its page, and the session of a memory
/// exception on the page of its report.
pub fn show_panel<'t>(tx: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    Box::pin(async move {
        match slot {
            PanelSlot::Overview(scope) => overview::find_overview(tx, scope).await,
            PanelSlot::Report(report) => memory_exception_panel::find_exception_panel(tx, report).await,
            PanelSlot::Versions(scope) => Ok(vec![version_column::find_version_column(tx, scope).await?]),
            PanelSlot::Version(scope) => Ok(vec![version_panel::find_version_panel(tx, scope).await?]),
            _ => Ok(Vec::new()),
        }
    })
}

/// The routes of the pages.
pub fn routes() -> Router<Api> {
    Router::new()
        .route(HEALTH_PATH, get(versions::render_page))
        .route(BREAKDOWN_PATH, get(metric_breakdown::render_page))
        .route(FIGURE_PATH, get(figure::render_page))
}
