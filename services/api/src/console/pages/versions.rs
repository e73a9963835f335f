//! `/console/versions`: the health of an app's versions.

use crate::console::bar::{FilterBar, app_select};
use crate::console::components::health::{crash_free, per_thousand};
use crate::console::pages::lists::{self, ListLink};
use crate::console::prelude::*;
use crate::operations::apps::versions::list_versions;
use crate::requests::page::PageQuery;
use unslide_model::figures::round_fraction_below_whole;
use unslide_store::queries::health::{self, HealthFigures, VersionHealth};
use unslide_store::queries::versions::VersionSummary;

const PATH: &str = "/console/versions";
/// Days of the crash-free share.
const HEALTH_DAYS: u32 = 30;
/// Maximum number of images without symbols that a row names.
const MOST_MISSING: usize = 3;

#[derive(Template)]
#[template(path = "console/pages/versions.html", askama = escaping)]
struct VersionsPage {
    shell: Shell,
    app: String,
    versions: Vec<VersionSummary>,
    /// How the sessions of some versions ended.
    health: Vec<VersionHealth>,
    links: Vec<ListLink>,
    next: Option<String>,
}

impl VersionsPage {
    fn health(&self, version: &VersionSummary) -> Option<&HealthFigures> {
        self.health.iter().find(|known| known.version == version.version).map(|known| &known.figures)
    }

    /// Returns the path of the version's groups, the one with the most reports of it first; with `new`, those
    /// that began in it.
    fn groups_of(&self, version: &VersionSummary, new: bool) -> String {
        let app = ("app", Some(self.app.as_str()));
        let name = Some(version.version.as_str());
        let new_in = ("new_in", name.filter(|_| new));
        link("/console/groups", &[app, ("version", name), new_in, ("sort", Some("reports"))])
    }

    fn reports_of(&self, version: &VersionSummary) -> String {
        link("/console/reports", &[("app", Some(&self.app)), ("version", Some(&version.version))])
    }
}

/// `GET /console/versions`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let asked = access.app(state.text("app"))?;
    let mut tx = api.tenant(access.tenant()).await?;
    let mut select = app_select(&mut tx, access, &state).await?;
    tx.rollback();
    // The app that reported last, if none is chosen.
    let app = select.choose(asked);
    let query = PageQuery { limit: None, cursor: state.text("cursor") };
    let found = list_versions(State(api.clone()), access.clone(), Path(app.clone()), Query(query)).await;
    let (items, next) = match found {
        Ok(Json(page)) => (page.items, page.next_cursor),
        Err(problem) if problem.kind() == crate::http::problem::Kind::NotFound => (Vec::new(), None),
        Err(problem) => return Err(problem),
    };
    let names: Vec<String> = items.iter().map(|version| version.version.clone()).collect();
    let [period, _] = health::periods(api.clock.now().date(), HEALTH_DAYS);
    let mut tx = api.tenant(access.tenant()).await?;
    let health = health::of_versions(&mut tx, &app, &names, period).await?;
    tx.rollback();
    let bar = FilterBar { action: PATH.to_owned(), selects: vec![select], ..FilterBar::default() };
    html(&VersionsPage {
        shell: Shell::of(signed.viewer, "versions", "Versions").with(bar),
        versions: items,
        health,
        links: lists::links(&api, "versions", &[("app", Some(&app))]),
        next: next.map(|cursor| link(PATH, &[("app", Some(&app)), ("cursor", Some(&cursor))])),
        app,
    })
}

fn crash_free_share(figures: Option<&HealthFigures>) -> String {
    let share = figures.and_then(|figures| crash_free(figures.crashed_sessions, figures.sessions));
    share.unwrap_or_else(|| "–".to_owned())
}

/// Returns sessions of a thousand that ended out of memory on the screen, and in the background; empty
/// without any.
fn out_of_memory(figures: &HealthFigures) -> Vec<(String, &'static str)> {
    let places = [
        (figures.out_of_memory_sessions, "out of memory"),
        (figures.background_out_of_memory_sessions, "out of memory in the background"),
    ];
    let some = places.into_iter().filter(|(sessions, _)| *sessions > 0);
    some.map(|(sessions, place)| (per_thousand(sessions, figures.sessions), place)).collect()
}

fn symbolicated(version: &VersionSummary) -> String {
    let percent = version.share_symbolicated.map(|share| round_fraction_below_whole(share, 100));
    percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent} %"))
}
