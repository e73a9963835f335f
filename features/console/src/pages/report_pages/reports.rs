//! `/console/reports`: the reports, newest first.

use super::report_filters::{self, REPORT_FILTERS, REPORTS_PAGE};
use crate::components::rows;
use crate::pages::lists::{self, ListLink};
use crate::pages::search::find_page_by_id;
use crate::prelude::*;
use time::OffsetDateTime;
use unslide_api::feature::lists::Lists;
use unslide_api::feature::panels::Panels;
use unslide_api::feature::site::{list_reports, read_id, read_report_total};
use unslide_site::{FilterBar, app_and_version};
use unslide_store::queries::reports::{ReportRow, ReportTotal};

#[derive(Template)]
#[template(path = "console/pages/report_pages/reports.html", askama = escaping)]
struct ReportsPage {
    shell: Shell,
    reports: Vec<ReportRow>,
    next: Option<String>,
    /// Set if the page ended before it was full: older reports were not compared yet.
    searched_to: Option<OffsetDateTime>,
    history_unavailable: Option<OffsetDateTime>,
    links: Vec<ListLink>,
    filtered: bool,
    /// The number of reports in the list; absent on further pages, and if it is not known.
    total: Option<ReportTotal>,
    /// True if the search text is an id that was not found.
    is_unknown_id: bool,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    State(panels): State<Arc<Panels>>,
    State(lists): State<Arc<Lists>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    if let Some(path) = find_page_by_id(&storage, &panels, access, state.get("q")).await? {
        return Ok(Redirect::to(&path).into_response());
    }
    let query = report_filters::build_query(&state, storage.clock.now());
    // A further page needs no total.
    let total = match state.get("cursor") {
        Some(_) => None,
        None => read_report_total(&storage, access, query.clone()).await?,
    };
    let Json(found) = list_reports(State(storage.clone()), access.clone(), Query(query)).await?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    tx.rollback();
    selects.extend(report_filters::list_fields(&state));
    let bar = FilterBar {
        action: REPORTS_PAGE.to_owned(),
        selects,
        chips: report_filters::list_chips(&state),
        hidden: report_filters::list_hidden(&state),
        search: Some(state.get_text("q").unwrap_or_default()),
    };
    render_html(&ReportsPage {
        shell: Shell::for_viewer(signed.viewer, "reports", "Reports")
            .with_about(state.get("app").unwrap_or_default())
            .with_bar(bar),
        reports: found.items,
        searched_to: found.searched_to,
        history_unavailable: found.history_unavailable,
        next: found.next_cursor.map(|cursor| state.at_cursor(REPORTS_PAGE, &REPORT_FILTERS, &cursor)),
        links: lists::list_links(&lists, "reports", &state.parameter_pairs(&REPORT_FILTERS)),
        is_unknown_id: state.get("q").and_then(read_id).is_some(),
        total,
        filtered: REPORT_FILTERS.iter().any(|name| state.get(name).is_some()),
    })
}

/// Describes the number of reports in the list.
fn format_total(total: &ReportTotal) -> String {
    let rows = counted(total.rows, "report", "reports");
    let rows = if total.is_complete { rows } else { format!("at least {rows}") };
    if total.reports > total.rows {
        return format!("{rows}, which represent about {}", words::grouped(total.reports));
    }
    rows
}
