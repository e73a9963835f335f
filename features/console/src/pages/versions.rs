//! `/console/versions`: the health of an app's versions.

use crate::pages::lists::{self, ListLink};
use crate::prelude::*;
use unslide_api::feature::lists::Lists;
use unslide_api::feature::operation::PageQuery;
use unslide_api::feature::panels::Panels;
use unslide_api::feature::panels::{PanelRow, PanelSection, PanelSlot, VersionScope, collect_panels};
use unslide_api::feature::site::list_versions;
use unslide_model::figures::round_fraction_below_whole;
use unslide_site::{FilterBar, app_select};
use unslide_store::queries::versions::VersionSummary;

pub const VERSIONS_PAGE: &str = "/console/versions";
/// The page of one version.
pub const VERSION_PAGE: &str = "/console/version";
/// Maximum number of images without symbols that a row names.
const MOST_MISSING: usize = 3;

#[derive(Template)]
#[template(path = "console/pages/versions.html", askama = escaping)]
struct VersionsPage {
    shell: Shell,
    app: String,
    versions: Vec<VersionSummary>,
    /// The sections of features: each is a column.
    columns: Vec<PanelSection>,
    links: Vec<ListLink>,
    next: Option<String>,
}

impl VersionsPage {
    /// Returns the path of the version's groups, the one with the most reports of it first; with `new`, those
    /// that began or came back in it.
    fn groups_of(&self, version: &VersionSummary, new: bool) -> String {
        let app = ("app", Some(self.app.as_str()));
        let name = Some(version.version.as_str());
        let new_in = ("new_in", name.filter(|_| new));
        let status = ("status", Some("all").filter(|_| new));
        build_link("/console/groups", &[app, ("version", name), new_in, status, ("sort", Some("reports"))])
    }

    /// Returns the page of the version, or the reports that name none.
    fn path_of(&self, version: &VersionSummary) -> String {
        match version.version.as_str() {
            "" => self.filtered_path(version, &[]),
            name => version_path(&self.app, name),
        }
    }

    /// Returns the path of the counted reports of a version, or of its crashes.
    fn counted_path(&self, version: &VersionSummary, is_fatal: bool) -> String {
        let fatal = is_fatal.then_some("true");
        self.filtered_path(version, &[("fatal", fatal), ("counted", Some("true"))])
    }

    fn filtered_path(&self, version: &VersionSummary, filters: &[(&str, Option<&str>)]) -> String {
        let name = version.version.as_str();
        let without = name.is_empty().then_some("version");
        let own = [("app", Some(self.app.as_str())), ("version", Some(name)), ("without", without)];
        build_link("/console/reports", &[&own[..], filters].concat())
    }
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    State(panels): State<Arc<Panels>>,
    State(lists): State<Arc<Lists>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let asked = access.restrict_app(state.get_text("app"))?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let mut select = app_select(&mut tx, access, &state).await?;
    tx.rollback();
    // The app that reported last, if none is chosen.
    let app = select.select_or_first(asked);
    let query = PageQuery { limit: None, cursor: state.get_text("cursor") };
    let found = list_versions(State(storage.clone()), access.clone(), Path(app.clone()), Query(query)).await;
    let (items, next) = match found {
        Ok(Json(page)) => (page.items, page.next_cursor),
        Err(problem) if problem.kind() == unslide_api::problem::Kind::NotFound => (Vec::new(), None),
        Err(problem) => return Err(problem),
    };
    let names: Vec<String> = items.iter().map(|version| version.version.clone()).collect();
    let scope = VersionScope { app: &app, versions: &names, today: storage.clock.now().date() };
    let mut tx = storage.tenant(access.tenant()).await?;
    let columns = collect_panels(&panels, &mut tx, PanelSlot::Versions(scope)).await?;
    tx.rollback();
    let bar = FilterBar { action: VERSIONS_PAGE.to_owned(), selects: vec![select], ..FilterBar::default() };
    render_html(&VersionsPage {
        shell: Shell::for_viewer(signed.viewer, "versions", "Versions")
            .with_about(app.as_str())
            .with_bar(bar),
        versions: items,
        columns,
        links: lists::list_links(&lists, "versions", &[("app", Some(&app))]),
        next: next.map(|cursor| build_link(VERSIONS_PAGE, &[("app", Some(&app)), ("cursor", Some(&cursor))])),
        app,
    })
}

/// Returns the cell of a version in the column that a section is.
fn find_cell<'s>(column: &'s PanelSection, version: &str) -> Option<&'s PanelRow> {
    column.table.iter().flat_map(|table| &table.rows).find(|row| row.name == version)
}

/// Returns the explanation of a column's heading.
fn describe_column(column: &PanelSection) -> &'static str {
    column.table.as_ref().map_or("", |table| table.caption)
}

/// Returns the path of the page of a version.
fn version_path(app: &str, version: &str) -> String {
    build_link(VERSION_PAGE, &[("app", Some(app)), ("version", Some(version))])
}

pub fn format_symbolicated(version: &VersionSummary) -> String {
    let percent = version.share_own_symbolicated.map(|share| round_fraction_below_whole(share, 100));
    percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent} %"))
}
