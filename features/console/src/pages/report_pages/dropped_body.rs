//! The page of a report of which the body is not kept: its row, and the way to a report that is like it.

use super::report_facts::{describe_tab, list_facts};
use crate::components::rows::{self, report_path, what};
use crate::prelude::*;
use unslide_api::problem::DroppedBody;
use unslide_site::Viewer;
use unslide_store::queries::reports::ReportRow;

#[derive(Template)]
#[template(path = "console/pages/report_pages/dropped_body.html", askama = escaping)]
struct DroppedBodyPage {
    shell: Shell,
    listed: ReportRow,
    kept_bodies: u32,
    /// The address of a report that is like it.
    like: Option<String>,
    facts: Vec<(&'static str, String)>,
}

/// Renders the page for a problem about a body that was dropped.
///
/// # Errors
/// The problem, if it is about something else.
pub fn render_without_body(viewer: Viewer, problem: Problem) -> Result<Response, Problem> {
    let Some(DroppedBody { listed, kept_bodies, like }) = problem.dropped_body().cloned() else {
        return Err(problem);
    };
    let mut facts = list_facts(&listed, 0);
    facts.retain(|(name, _)| *name != "Size");
    render_html(&DroppedBodyPage {
        shell: Shell::for_viewer(viewer, "reports", what(&listed)).with_about(describe_tab(&listed)),
        kept_bodies,
        like: like.map(|(id, variant)| report_path(id, variant, "")),
        facts,
        listed,
    })
}
