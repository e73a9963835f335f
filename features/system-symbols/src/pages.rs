//! `/console/system-symbols`: the builds of recent reports that lack names, each with the command that adds them.

use crate::coverage::operation::{CoverageQuery, get_system_symbol_coverage};
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Api, Problem, Query, ReportsRead};
use unslide_site::{
    FilterBar, PageState, Shell, SignedIn, Template, app_select, build_link, escaping, filters,
    period_select, render_html,
};
use unslide_system_symbols_formats::{
    BuildCoverage, CoverageState, FIRST_COMMAND, SystemSymbolCoverage, advise_import, format_release,
};

/// The path of the page.
pub const COVERAGE_PAGE: &str = "/console/system-symbols";

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(COVERAGE_PAGE, get(show_coverage))
}

#[derive(Template)]
#[template(path = "system-symbols/coverage.html", askama = escaping)]
struct CoveragePage {
    shell: Shell,
    coverage: SystemSymbolCoverage,
    days: u32,
}

impl CoveragePage {
    /// Returns true if no frame of a report lies in an image of the system.
    fn has_no_images(&self) -> bool {
        self.coverage.items.iter().all(|build| build.images == 0)
    }

    fn first_command(&self) -> &'static str {
        FIRST_COMMAND
    }
}

/// `GET /console/system-symbols`: the coverage, the builds that lack most first.
async fn show_coverage(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let days = u32::try_from(state.chart_days()).unwrap_or(1);
    let query = CoverageQuery { days: Some(days), app: state.get_text("app") };
    let mut tx = storage.tenant(signed.access.tenant()).await?;
    let app = app_select(&mut tx, &signed.access, &state).await?;
    tx.rollback();
    let bar = FilterBar {
        action: build_link(COVERAGE_PAGE, &[]),
        selects: vec![app, period_select(&state)],
        ..FilterBar::default()
    };
    let Json(coverage) = get_system_symbol_coverage(State(storage), signed.access, Query(query)).await?;
    render_html(&CoveragePage {
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "System symbols").with_bar(bar),
        coverage,
        days,
    })
}

fn state_mark(build: &BuildCoverage) -> (&'static str, &'static str, &'static str) {
    match build.state {
        _ if build.images == 0 => ("info", "○", "no system frames"),
        CoverageState::Whole => ("good", "●", "all named"),
        CoverageState::Partly => ("warn", "◐", "some named"),
        CoverageState::ExportsOnly => ("warn", "◐", "exports only"),
        CoverageState::None => ("bad", "○", "no names"),
    }
}
