//! `/console/reports`: the reports, newest first.

use crate::bar::{BarSelect, FilterBar, SEARCH_LABEL, app_and_version};
use crate::components::rows;
use crate::pages::lists::{self, ListLink};
use crate::pages::search::{find_by_id, read_id};
use crate::prelude::*;
use unslide_api::feature::site::{ReportQuery, list_reports};
use unslide_store::queries::reports::ReportRow;

pub(crate) const REPORTS_PAGE: &str = "/console/reports";
/// Filters without a field: a link sets them, and each is shown with a link that removes it.
const LINKED_REPORT_FILTERS: [&str; 6] = ["status", "kind", "group", "model", "os_version", "debug_id"];
const REPORT_FILTERS: [&str; 10] =
    ["app", "version", "q", "symbols_missing", "status", "kind", "group", "model", "os_version", "debug_id"];

#[derive(Template)]
#[template(path = "console/pages/report_pages/reports.html", askama = escaping)]
struct ReportsPage {
    shell: Shell,
    reports: Vec<ReportRow>,
    next: Option<String>,
    links: Vec<ListLink>,
    filtered: bool,
    /// True if the search text is an id that was not found.
    is_unknown_id: bool,
}

pub async fn render_page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    if let Some(path) = find_by_id(&api, access, state.get("q")).await? {
        return Ok(Redirect::to(&path).into_response());
    }
    let Json(found) = list_reports(State(api.clone()), access.clone(), Query(build_query(&state))).await?;
    let mut tx = api.tenant(access.tenant()).await?;
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    tx.rollback();
    let choices = [("", "all"), ("true", "missing"), ("false", "not missing")];
    selects.push(BarSelect::from_words("symbols_missing", "App symbols", &choices, &state));
    let bar = FilterBar {
        action: REPORTS_PAGE.to_owned(),
        selects,
        chips: LINKED_REPORT_FILTERS.iter().filter_map(|name| build_chip(&state, name)).collect(),
        hidden: LINKED_REPORT_FILTERS
            .iter()
            .filter_map(|name| Some((*name, state.get_text(name)?)))
            .collect(),
        search: Some(state.get_text("q").unwrap_or_default()),
        search_label: SEARCH_LABEL,
    };
    render_html(&ReportsPage {
        shell: Shell::for_viewer(signed.viewer, "reports", "Reports")
            .with_about(state.get("app").unwrap_or_default())
            .with_bar(bar),
        reports: found.items,
        next: found.next_cursor.map(|cursor| state.at_cursor(REPORTS_PAGE, &REPORT_FILTERS, &cursor)),
        links: lists::list_links(&api, "reports", &state.parameter_pairs(&REPORT_FILTERS)),
        is_unknown_id: state.get("q").and_then(read_id).is_some(),
        filtered: REPORT_FILTERS.iter().any(|name| state.get(name).is_some()),
    })
}

/// Returns the query in the page's address.
pub(crate) fn build_query(state: &PageState) -> ReportQuery {
    ReportQuery {
        app: state.get_text("app"),
        version: state.get_text("version"),
        kind: state.get_text("kind"),
        status: state.get_text("status"),
        symbols_missing: state.get("symbols_missing").and_then(|missing| missing.parse().ok()),
        model: state.get_text("model"),
        os_version: state.get_text("os_version"),
        debug_id: state.get_text("debug_id"),
        group: state.get_text("group"),
        q: state.get_text("q"),
        cursor: state.get_text("cursor"),
        ..ReportQuery::default()
    }
}

/// Returns a filter that a link has set, and the address without it.
fn build_chip(state: &PageState, name: &str) -> Option<(String, String)> {
    let value = state.get(name)?;
    let others = REPORT_FILTERS.iter().filter(|other| **other != name);
    let pairs: Vec<_> = others.map(|other| (*other, state.get(other))).collect();
    let label = match name {
        "debug_id" => "debug id",
        "status" => "all frames",
        "model" => "device",
        "os_version" => "system",
        name => name,
    };
    Some((format!("{label} {value}"), build_link(REPORTS_PAGE, &pairs)))
}
