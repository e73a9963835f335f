//! `/console/versions`: how the versions of an app do.

use crate::console::bar::{FilterBar, app_select};
use crate::console::components::health::{crash_free, per_thousand};
use crate::console::link::EXPORTED_VERSIONS;
use crate::console::prelude::*;
use crate::console::words::{day, estimate, grouped, missing_command, percent};
use crate::operations::apps::versions::list_versions;
use crate::requests::page::PageQuery;
use unslide_store::queries::health::{self, HealthFigures};
use unslide_store::queries::versions::VersionSummary;

const PATH: &str = "/console/versions";
/// Days that the share of sessions without a crash is of.
const HEALTH_DAYS: u32 = 30;
/// Images without symbols that a row names.
const MOST_MISSING: usize = 3;

#[derive(Template)]
#[template(path = "console/pages/versions.html", askama = escaping)]
struct VersionsPage {
    shell: Shell,
    app: String,
    health_days: u32,
    versions: Vec<VersionLine>,
    export: String,
    next: Option<String>,
}

struct VersionLine {
    version: String,
    href: String,
    crash_free: String,
    /// Sessions that the share is of; empty without any.
    sessions: String,
    /// Sessions of a thousand that ended out of memory on the screen, and in the background; empty without any.
    out_of_memory: Vec<(String, &'static str)>,
    crashes: String,
    reports: String,
    devices: String,
    symbolicated: String,
    complete: String,
    partial: String,
    none: String,
    first_day: String,
    last_day: String,
    /// Name, debug id and command.
    missing: Vec<(String, String, String)>,
    more_missing: usize,
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
    // Of all apps the one that reported last, where none is named.
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
    let of = |version: &VersionSummary| {
        health.iter().find(|known| known.version == version.version).map(|known| &known.figures)
    };
    let bar = FilterBar { action: PATH.to_owned(), selects: vec![select], ..FilterBar::default() };
    html(&VersionsPage {
        shell: Shell::of(signed.viewer, "versions", "Versions").with(bar),
        versions: items.iter().map(|version| line(&app, version, of(version))).collect(),
        health_days: HEALTH_DAYS,
        export: link(EXPORTED_VERSIONS, &[("app", Some(&app))]),
        next: next.map(|cursor| link(PATH, &[("app", Some(&app)), ("cursor", Some(&cursor))])),
        app: shown(&app),
    })
}

fn line(app: &str, version: &VersionSummary, health: Option<&HealthFigures>) -> VersionLine {
    let symbolicated = version.share_symbolicated.map(share);
    let about = |reports| estimate(grouped(reports), version.estimated);
    let missing = version.missing.iter().take(MOST_MISSING).map(|image| {
        let name = shown_or(&image.name, "unnamed image");
        (name, image.debug_id.to_string().to_uppercase(), missing_command(&shown(&image.name), &image.arch))
    });
    VersionLine {
        version: shown_or(&version.version, "no version"),
        href: link("/console/reports", &[("app", Some(app)), ("version", Some(&version.version))]),
        crash_free: health
            .and_then(|figures| crash_free(figures.crashed_sessions, figures.sessions))
            .unwrap_or_else(|| "–".to_owned()),
        sessions: health.map(sessions).unwrap_or_default(),
        out_of_memory: health.map(out_of_memory).unwrap_or_default(),
        crashes: grouped(version.crashes),
        reports: about(version.reports),
        devices: counted(version.devices, "device", "devices"),
        symbolicated: symbolicated.unwrap_or_else(|| "–".to_owned()),
        complete: about(version.complete),
        partial: about(version.partial),
        none: about(version.none),
        first_day: day(version.first_day),
        last_day: day(version.last_day),
        missing: missing.collect(),
        more_missing: version.missing.len().saturating_sub(MOST_MISSING),
    }
}

fn sessions(figures: &HealthFigures) -> String {
    estimate(counted(figures.sessions, "session", "sessions"), figures.estimated)
}

fn out_of_memory(figures: &HealthFigures) -> Vec<(String, &'static str)> {
    let places = [
        (figures.out_of_memory_sessions, "out of memory"),
        (figures.background_out_of_memory_sessions, "out of memory in the background"),
    ];
    let some = places.into_iter().filter(|(sessions, _)| *sessions > 0);
    some.map(|(sessions, place)| (per_thousand(sessions, figures.sessions), place)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "a share is between 0 and 1")]
fn share(share: f64) -> String {
    percent((share * 1_000_000.0) as i64, 1_000_000).unwrap_or_default()
}
