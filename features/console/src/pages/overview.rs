//! `/console`: current figures, new groups, and missing symbols.

use crate::bar::{FilterBar, app_and_version, period_or_hours};
use crate::components::chart::{ChartTimes, GroupTrends, RELEASES_LIMIT, StackedBars};
use crate::components::rows::{self, GroupHead, group_heads};
use crate::prelude::*;
use crate::words::{estimate, format_percentage, grouped};
use time::{Date, Duration, OffsetDateTime};
use unslide_api::feature::figures::{OverviewScope, OverviewSection};
use unslide_api::feature::site::GROWING;
use unslide_api::feature::site::Tx;
use unslide_store::TenantTx;
use unslide_store::queries::groups::growing;
use unslide_store::queries::groups::{self, CountScope, GroupFilter, GroupOrder, ListedGroup};
use unslide_store::queries::missing::{self, MissingDebugId, MissingFilter};
use unslide_store::queries::trends::{self, PeriodTotals, TrendStep, VersionFilter};

/// Maximum number of groups and images in each list.
const LIST_ENTRIES: u32 = 5;
/// Maximum number of versions with a name in the chart.
const CHART_VERSIONS_LIMIT: u32 = 5;
/// Maximum number of new groups that are counted.
const NEW_GROUPS_LIMIT: u32 = 1_000;

#[derive(Template)]
#[template(path = "console/pages/overview.html", askama = escaping)]
struct OverviewPage {
    shell: Shell,
    /// The number of days that figures by day cover.
    days: i64,
    /// The period of the chart and the counts, such as `24 hours`.
    period: String,
    sections: Vec<OverviewSection>,
    figures: Vec<Figure>,
    chart: StackedBars,
    heads: Vec<GroupHead>,
    new: Vec<ListedGroup>,
    growing: Vec<ListedGroup>,
    trends: GroupTrends,
    growing_caption: String,
    new_href: String,
    growing_href: String,
    missing: Vec<MissingDebugId>,
    nothing: bool,
}

/// The period of the page: days up to today, or the last 24 hours. For 24 hours, figures by day cover two
/// days.
struct OverviewPeriod {
    step: TrendStep,
    days: i64,
    first: Date,
    /// When the first day or hour begins.
    begins: OffsetDateTime,
    now: OffsetDateTime,
}

impl OverviewPeriod {
    fn from_state(state: &PageState, now: OffsetDateTime) -> OverviewPeriod {
        let step = if state.is_hourly() { TrendStep::Hour } else { TrendStep::Day };
        let days = if state.is_hourly() { 2 } else { state.chart_days() };
        let first = now.date() - Duration::days(days - 1);
        let begins = match step {
            TrendStep::Hour => now.truncate_to_hour() - Duration::hours(23),
            TrendStep::Day => first.midnight().assume_utc(),
        };
        OverviewPeriod { step, days, first, begins, now }
    }

    fn length(&self) -> Duration {
        match self.step {
            TrendStep::Hour => Duration::DAY,
            TrendStep::Day => Duration::days(self.days),
        }
    }

    fn format_length(&self) -> String {
        match self.step {
            TrendStep::Hour => "24 hours".to_owned(),
            TrendStep::Day => format!("{} days", self.days),
        }
    }

    async fn load_chart(
        &self,
        tx: &mut Tx<TenantTx>,
        filter: VersionFilter<'_>,
    ) -> Result<StackedBars, Problem> {
        let rows = trends::by_version(tx, filter, self.step, self.begins, CHART_VERSIONS_LIMIT).await?;
        let times = match self.step {
            TrendStep::Hour => ChartTimes::from_hours(self.begins, self.now.truncate_to_hour()),
            TrendStep::Day => ChartTimes::from_days(self.first, self.now.date()),
        };
        let releases = trends::first_days(tx, filter.app, self.first, RELEASES_LIMIT).await?;
        // Crashes are never sampled.
        Ok(StackedBars::from_rows("Crashes", false, rows, &times).with_releases(&releases, &times))
    }

    /// Returns the totals of the period and of the one before it.
    async fn load_totals(
        &self,
        tx: &mut Tx<TenantTx>,
        filter: VersionFilter<'_>,
    ) -> Result<[PeriodTotals; 2], Problem> {
        let (begins, length) = (self.begins, self.length());
        let now = trends::read_totals(tx, filter, self.step, begins, begins + length).await?;
        Ok([now, trends::read_totals(tx, filter, self.step, begins - length, begins).await?])
    }
}

struct Figure {
    label: &'static str,
    value: String,
    note: String,
    href: Option<String>,
}

pub async fn render_page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, api.clock.now());
    let (app, version) = (access.restrict_app(state.get_text("app"))?, state.get_text("version"));
    let filter = VersionFilter { app: app.as_deref(), version: version.as_deref() };
    let period = OverviewPeriod::from_state(&state, now);
    let mut tx = api.tenant(access.tenant()).await?;
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    selects.push(period_or_hours(&state));
    let chart = period.load_chart(&mut tx, filter).await?;
    let sections = feature_sections(&api, &mut tx, filter, &period).await?;
    let totals = period.load_totals(&mut tx, filter).await?;
    let new_groups = trends::new_groups(&mut tx, filter, period.begins, NEW_GROUPS_LIMIT).await?;
    let (new, growing, trends) = group_lists(&mut tx, access, &state, &period).await?;
    let missing_filter = MissingFilter { app: app.clone(), version: version.clone(), system: false };
    let missing = missing::list_missing(&mut tx, &missing_filter, None, LIST_ENTRIES).await?;
    tx.rollback();
    let bar = FilterBar { action: "/console".to_owned(), selects, ..FilterBar::default() };
    let growing_href = build_link(
        "/console/groups",
        &[("app", filter.app), ("version", filter.version), ("sort", Some(GROWING))],
    );
    render_html(&OverviewPage {
        shell: Shell::for_viewer(signed.viewer, "overview", "Overview")
            .with_about(state.get("app").unwrap_or_default())
            .with_bar(bar),
        days: period.days,
        period: period.format_length(),
        nothing: period.step == TrendStep::Day
            && totals[0].reports == 0
            && missing.is_empty()
            && sections.iter().all(|section| section.figures.is_empty()),
        sections,
        chart,
        figures: build_figures(totals, new_groups, filter, &period),
        heads: group_heads(None, |_| None),
        new,
        growing,
        trends,
        growing_caption: format!(
            "Reports of {0} days, and how many more than in the {0} days before, the most more first",
            period.days
        ),
        new_href: new_groups_path(filter.app, filter.version),
        growing_href,
        missing,
    })
}

/// Returns the figures of features for an app and a version.
async fn feature_sections(
    api: &Api,
    tx: &mut Tx<TenantTx>,
    filter: VersionFilter<'_>,
    period: &OverviewPeriod,
) -> Result<Vec<OverviewSection>, Problem> {
    let scope = OverviewScope {
        app: filter.app,
        version: filter.version,
        today: period.now.date(),
        days: period.days,
        is_hourly: period.step == TrendStep::Hour,
    };
    let mut sections = Vec::new();
    for find in api.features.iter().filter_map(|feature| feature.find_overview) {
        sections.push(find(tx, scope).await?);
    }
    Ok(sections)
}

/// Returns the path of an app's groups, the newest first; with a version, those that began in it.
fn new_groups_path(app: Option<&str>, version: Option<&str>) -> String {
    let pairs = [("app", app), ("version", version), ("new_in", version), ("sort", Some("first_seen"))];
    build_link("/console/groups", &pairs)
}

fn build_figures(
    [now, before]: [PeriodTotals; 2],
    new: i64,
    filter: VersionFilter<'_>,
    period: &OverviewPeriod,
) -> Vec<Figure> {
    let href = |path| Some(build_link(path, &[("app", filter.app), ("version", filter.version)]));
    let share = |totals: &PeriodTotals| format_percentage(totals.symbolicated, totals.frames);
    let before_them = |count, estimated| {
        format!("{} in the {} before", estimate(grouped(count), estimated), period.format_length())
    };
    let mut figures = vec![
        Figure {
            label: "Crashes",
            value: grouped(now.crashes),
            note: before_them(before.crashes, false),
            href: href("/console/reports"),
        },
        Figure {
            label: "Reports",
            value: estimate(grouped(now.reports), now.estimated),
            note: before_them(before.reports, before.estimated),
            href: href("/console/reports"),
        },
        Figure {
            label: "New groups",
            value: if new >= i64::from(NEW_GROUPS_LIMIT) {
                format!("≥ {}", grouped(new))
            } else {
                grouped(new)
            },
            note: "bugs first seen in this period".to_owned(),
            href: Some(new_groups_path(filter.app, filter.version)),
        },
    ];
    if period.step == TrendStep::Day {
        figures.push(Figure {
            label: "App frames symbolicated",
            value: share(&now).unwrap_or_else(|| "–".to_owned()),
            note: share(&before).map_or_else(
                || "no frames of the app in the period before".to_owned(),
                |share| format!("{share} in the period before"),
            ),
            href: href("/console/symbols"),
        });
        figures.push(Figure {
            label: "Newly affected devices",
            value: grouped(now.devices),
            note: format!("on which a version had its first report; {}", before_them(before.devices, false)),
            href: None,
        });
    }
    figures
}

async fn group_lists(
    tx: &mut Tx<TenantTx>,
    access: &Access<ReportsRead>,
    state: &PageState,
    period: &OverviewPeriod,
) -> Result<(Vec<ListedGroup>, Vec<ListedGroup>, GroupTrends), Problem> {
    let (first, now) = (period.first, period.now);
    let filter = GroupFilter {
        app: access.restrict_app(state.get_text("app"))?,
        scope: CountScope { version: state.get_text("version"), ..CountScope::default() },
        ..GroupFilter::default()
    };
    let new = GroupFilter {
        first_version: filter.scope.version.clone(),
        new_from: Some(period.begins),
        ..filter.clone()
    };
    let new = groups::list_groups(tx, &new, GroupOrder::FirstSeen, None, LIST_ENTRIES).await?;
    let mut growing = growing::list_growing_groups(tx, &filter, first, now).await?;
    growing.truncate(LIST_ENTRIES as usize);
    groups::replace_counts(tx, &filter, &mut growing).await?;
    let ids: Vec<_> = new.iter().chain(&growing).map(|group| group.id).collect();
    let trends = GroupTrends::from_rows(
        &trends::read_group_trends(tx, &ids, state.get("version"), first).await?,
        (first, now.date()),
    );
    Ok((new, growing, trends))
}
