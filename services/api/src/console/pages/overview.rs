//! `/console`: what happens, what is new, and which symbols would help.

use crate::console::bar::{FilterBar, PageState, app_and_version, period};
use crate::console::components::chart::{StackedBars, by_group};
use crate::console::components::health::{self as health_lines, HealthLine};
use crate::console::components::rows::{GroupHead, GroupLine, MissingLine, group_heads};
use crate::console::link::link;
use crate::console::session::SignedIn;
use crate::console::shell::{Shell, html};
use crate::console::words::{grouped, percent};
use crate::http::problem::Problem;
use crate::limits::transactions::Tx;
use crate::requests::access::{Access, ReportsRead};
use crate::requests::input::Query;
use crate::state::Api;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use time::{Date, Duration, OffsetDateTime};
use unslide_store::TenantTx;
use unslide_store::queries::groups::{self, GroupFilter, GroupOrder};
use unslide_store::queries::health;
use unslide_store::queries::missing::{self, MissingFilter};
use unslide_store::queries::trends::{self, PeriodTotals};

/// Groups and images of each list.
const MOST: u32 = 5;
/// Versions of the chart by name.
const VERSIONS: u32 = 5;
/// New groups that are counted.
const MOST_NEW: u32 = 1_000;

#[derive(Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    shell: Shell,
    days: i64,
    /// Empty without session events.
    health: Vec<HealthLine>,
    figures: Vec<Figure>,
    chart: StackedBars,
    heads: Vec<GroupHead>,
    new: Vec<GroupLine>,
    busy: Vec<GroupLine>,
    new_href: String,
    busy_href: String,
    missing: Vec<MissingLine>,
    nothing: bool,
}

struct Figure {
    label: &'static str,
    value: String,
    note: String,
    href: Option<String>,
}

/// `GET /console`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, api.clock.now());
    let (app, version) = (access.app(state.text("app"))?, state.text("version"));
    let of = (app.as_deref(), version.as_deref());
    let first = state.first_day(now);
    let mut tx = api.tenant(access.tenant()).await?;
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    selects.push(period(&state));
    let rows = trends::by_version(&mut tx, of, first, VERSIONS).await?;
    let (days, length) = (state.days(), u32::try_from(state.days()).unwrap_or(1));
    let [period, period_before] = health::periods(now.date(), length);
    let sessions = health::total(&mut tx, of, period).await?;
    let sessions_before = health::total(&mut tx, of, period_before).await?;
    let figures = figures(&mut tx, &state, of, first).await?;
    let [new, busy] = group_lists(&mut tx, access, &state, (first, now)).await?;
    let filter = MissingFilter { app: app.clone(), version: version.clone(), system: false };
    let wanted = missing::list(&mut tx, &filter, None, MOST).await?;
    tx.rollback().await?;
    let bar = FilterBar { action: "/console".to_owned(), selects, ..FilterBar::default() };
    let seen = |sort| link("/console/groups", &[("app", of.0), ("version", of.1), ("sort", Some(sort))]);
    html(&OverviewPage {
        shell: Shell::of(signed.viewer, "overview", "Overview").with(bar),
        days,
        nothing: rows.is_empty() && busy.is_empty() && wanted.is_empty() && sessions.sessions == 0,
        health: health_lines::lines(&sessions, &sessions_before, days),
        chart: StackedBars::of(rows, first, now.date()),
        figures,
        heads: group_heads(None, |_| None),
        new,
        busy,
        new_href: seen("first_seen"),
        busy_href: seen("reports"),
        missing: wanted.iter().map(|image| MissingLine::of(image, now)).collect(),
    })
}

async fn figures(
    tx: &mut Tx<TenantTx>,
    state: &PageState,
    of: (Option<&str>, Option<&str>),
    first: Date,
) -> Result<Vec<Figure>, Problem> {
    let days = Duration::days(state.days());
    let now = trends::totals(tx, of, (first, first + days)).await?;
    let before = trends::totals(tx, of, (first - days, first)).await?;
    let new = trends::new_groups(tx, of.0, first.midnight().assume_utc(), MOST_NEW).await?;
    let href = |path| Some(link(path, &[("app", of.0), ("version", of.1)]));
    let share = |totals: &PeriodTotals| percent(totals.symbolicated, totals.frames);
    Ok(vec![
        Figure {
            label: "Reports",
            value: grouped(now.reports),
            note: format!("{} in the {} days before", grouped(before.reports), state.days()),
            href: href("/console/reports"),
        },
        Figure {
            label: "New groups",
            value: if new >= i64::from(MOST_NEW) { format!("≥ {}", grouped(new)) } else { grouped(new) },
            note: "bugs first seen in this period".to_owned(),
            href: Some(link("/console/groups", &[("app", of.0), ("sort", Some("first_seen"))])),
        },
        Figure {
            label: "Frames symbolicated",
            value: share(&now).unwrap_or_else(|| "–".to_owned()),
            note: share(&before).map_or_else(
                || "no frames in the period before".to_owned(),
                |share| format!("{share} in the period before"),
            ),
            href: href("/console/symbols"),
        },
    ])
}

async fn group_lists(
    tx: &mut Tx<TenantTx>,
    access: &Access<ReportsRead>,
    state: &PageState,
    (first, now): (Date, OffsetDateTime),
) -> Result<[Vec<GroupLine>; 2], Problem> {
    let from = first.midnight().assume_utc();
    let filter = GroupFilter {
        app: access.app(state.text("app"))?,
        version: state.text("version"),
        ..GroupFilter::default()
    };
    let new = GroupFilter { new_from: Some(from), ..filter.clone() };
    let new = groups::list(tx, &new, GroupOrder::FirstSeen, None, MOST).await?;
    let busy = GroupFilter { seen_from: Some(from), ..filter };
    let busy = groups::list(tx, &busy, GroupOrder::Reports, None, MOST).await?;
    let ids: Vec<_> = new.iter().chain(&busy).map(|group| group.id).collect();
    let trends = by_group(&trends::of_groups(tx, &ids, first).await?);
    Ok([new, busy].map(|list| list.iter().map(|group| GroupLine::of(group, &trends, (first, now))).collect()))
}
