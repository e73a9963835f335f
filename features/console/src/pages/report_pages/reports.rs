//! `/console/reports`: the reports, newest first.

use crate::bar::{BarSelect, FilterBar, SEARCH_LABEL, app_and_version};
use crate::components::rows;
use crate::pages::lists::{self, ListLink};
use crate::pages::search::{find_by_id, read_id};
use crate::prelude::*;
use unslide_api::feature::site::{ReportQuery, list_reports};
use unslide_store::queries::reports::ReportRow;

pub(crate) const PATH: &str = "/console/reports";
/// Filters without a field: a link sets them, and each is shown with a link that removes it.
const LINKED: [&str; 5] = ["kind", "group", "model", "os_version", "debug_id"];
const FILTERS: [&str; 9] =
    ["app", "version", "q", "status", "kind", "group", "model", "os_version", "debug_id"];

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

/// `GET /console/reports`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    if let Some(path) = find_by_id(&api, access, state.get("q")).await? {
        return Ok(Redirect::to(&path).into_response());
    }
    let Json(found) = list_reports(State(api.clone()), access.clone(), Query(query(&state))).await?;
    let mut tx = api.tenant(access.tenant()).await?;
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    tx.rollback();
    let statuses =
        [("", "all"), ("complete", "complete"), ("partial", "partial"), ("none", "not symbolicated")];
    selects.push(BarSelect::of("status", "Status", &statuses, &state));
    let bar = FilterBar {
        action: PATH.to_owned(),
        selects,
        chips: LINKED.iter().filter_map(|name| chip(&state, name)).collect(),
        hidden: LINKED.iter().filter_map(|name| Some((*name, state.text(name)?))).collect(),
        search: Some(state.text("q").unwrap_or_default()),
        search_label: SEARCH_LABEL,
    };
    html(&ReportsPage {
        shell: Shell::of(signed.viewer, "reports", "Reports").with(bar),
        reports: found.items,
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &FILTERS, &cursor)),
        links: lists::links(&api, "reports", &state.pairs(&FILTERS)),
        is_unknown_id: state.get("q").and_then(read_id).is_some(),
        filtered: FILTERS.iter().any(|name| state.get(name).is_some()),
    })
}

/// Returns the query in the page's address.
pub(crate) fn query(state: &PageState) -> ReportQuery {
    ReportQuery {
        app: state.text("app"),
        version: state.text("version"),
        kind: state.text("kind"),
        status: state.text("status"),
        model: state.text("model"),
        os_version: state.text("os_version"),
        debug_id: state.text("debug_id"),
        group: state.text("group"),
        q: state.text("q"),
        cursor: state.text("cursor"),
        ..ReportQuery::default()
    }
}

/// Returns a filter that a link has set, and the address without it.
fn chip(state: &PageState, name: &str) -> Option<(String, String)> {
    let value = state.get(name)?;
    let others = FILTERS.iter().filter(|other| **other != name);
    let pairs: Vec<_> = others.map(|other| (*other, state.get(other))).collect();
    let label = match name {
        "debug_id" => "debug id",
        "model" => "device",
        "os_version" => "system",
        name => name,
    };
    Some((format!("{label} {value}"), link(PATH, &pairs)))
}
