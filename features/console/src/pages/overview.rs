//! `/console`: current figures, new groups, and missing symbols.

use crate::components::chart::{CHART_VERSIONS_LIMIT, ChartTimes, GroupTrends, RELEASES_LIMIT, StackedBars};
use crate::components::rows::{self, CountedScope, GroupHead, group_heads};
use crate::pages::report_pages::report_filters::day_begin;
use crate::prelude::*;
use time::{Date, Duration, OffsetDateTime};
use unslide_api::feature::panels::Panels;
use unslide_api::feature::panels::{OverviewScope, PanelSection, PanelSlot, collect_panels};
use unslide_api::feature::site::GROWING;
use unslide_api::feature::site::Tx;
use unslide_site::words::{estimate, format_percentage, grouped};
use unslide_site::{FilterBar, app_and_version, period_or_hours};
use unslide_store::TenantTx;
use unslide_store::queries::groups::growing;
use unslide_store::queries::groups::{self, CountScope, GroupFilter, GroupOrder, ListedGroup};
use unslide_store::queries::missing::{self, MissingDebugId, MissingFilter};
use unslide_store::queries::trends::{self, PeriodTotals, TrendStep, VersionCount, VersionFilter};

/// Maximum number of groups and images in each list.
const LIST_ENTRIES: u32 = 5;
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
    /// The sections of features.
    panels: Vec<PanelSection>,
    figures: Vec<Figure>,
    chart: StackedBars,
    heads: Vec<GroupHead>,
    new: Vec<ListedGroup>,
    growing: Vec<ListedGroup>,
    trends: GroupTrends,
    scope: CountedScope,
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
            TrendStep::Hour => day_begin(now),
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

    /// Returns the value of the parameter `days` of other pages for this period.
    fn days_parameter(&self) -> String {
        match self.step {
            TrendStep::Hour => "1".to_owned(),
            TrendStep::Day => self.days.to_string(),
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
        let days = self.days_parameter();
        let href = |row: &VersionCount| {
            let (app, version) = (row.app.as_str(), row.version.as_deref());
            let own = VersionFilter { app: Some(app), version };
            (!app.is_empty() && version.is_some()).then(|| counted_path(own, &days, true))
        };
        let releases = trends::first_days(tx, filter.app, self.first, RELEASES_LIMIT).await?;
        // Crashes are never sampled.
        let bars = StackedBars::from_rows("Crashes", false, rows, &times).with_links(href);
        Ok(bars.with_releases(&releases, &times))
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
    /// The number of entries in the list that the link leads to; absent if it is a share.
    count: Option<i64>,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    State(panels): State<Arc<Panels>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, storage.clock.now());
    let (app, version) = (access.restrict_app(state.get_text("app"))?, state.get_text("version"));
    let filter = VersionFilter { app: app.as_deref(), version: version.as_deref() };
    let period = OverviewPeriod::from_state(&state, now);
    let mut tx = storage.tenant(access.tenant()).await?;
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    selects.push(period_or_hours(&state));
    let chart = period.load_chart(&mut tx, filter).await?;
    let scope = OverviewScope {
        app: filter.app,
        version: filter.version,
        today: now.date(),
        days: period.days,
        is_hourly: period.step == TrendStep::Hour,
    };
    let panels = collect_panels(&panels, &mut tx, PanelSlot::Overview(scope)).await?;
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
            && panels.iter().all(PanelSection::is_empty),
        panels,
        chart,
        figures: build_figures(totals, new_groups, filter, &period),
        heads: group_heads(None, |_| None),
        new,
        growing,
        trends,
        scope: CountedScope { version: version.clone(), days: None, growth_from: Some(period.first) },
        growing_caption: format!(
            "Reports of {0} days, and how many more than in the {0} days before, the most more first",
            period.days
        ),
        new_href: build_link("/console/groups", &new_groups_filter(filter)),
        growing_href,
        missing,
    })
}

/// Returns the filter of an app's groups, the newest first; with a version, of those that began in it.
fn new_groups_filter<'v>(filter: VersionFilter<'v>) -> [(&'static str, Option<&'v str>); 4] {
    let VersionFilter { app, version } = filter;
    [("app", app), ("version", version), ("new_in", version), ("sort", Some("first_seen"))]
}

/// Returns the path of the reports that the period counts, or of its crashes.
fn counted_path(filter: VersionFilter<'_>, days: &str, is_fatal: bool) -> String {
    let VersionFilter { app, version } = filter;
    let without = version.filter(|version| version.is_empty()).map(|_| "version");
    let own = [("app", app), ("version", version), ("without", without)];
    let fatal = is_fatal.then_some("true");
    let counted = [("days", Some(days)), ("fatal", fatal), ("counted", Some("true"))];
    build_link("/console/reports", &[&own[..], &counted].concat())
}

fn build_figures(
    [now, before]: [PeriodTotals; 2],
    new: i64,
    filter: VersionFilter<'_>,
    period: &OverviewPeriod,
) -> Vec<Figure> {
    let days = period.days_parameter();
    let new_period = [("new_days", Some(days.as_str())), ("status", Some("all"))];
    let new_filter = [&new_groups_filter(filter)[..], &new_period].concat();
    let before_them = |count, estimated| {
        format!("{} in the {} before", estimate(grouped(count), estimated), period.format_length())
    };
    let mut figures = vec![
        Figure {
            label: "Crashes",
            value: grouped(now.crashes),
            note: before_them(before.crashes, false),
            href: Some(counted_path(filter, &days, true)),
            count: Some(now.crashes),
        },
        Figure {
            label: "Reports",
            value: estimate(grouped(now.reports), now.estimated),
            note: before_them(before.reports, before.estimated),
            href: Some(counted_path(filter, &days, false)),
            count: Some(now.reports),
        },
        Figure {
            label: "New groups",
            value: if new >= i64::from(NEW_GROUPS_LIMIT) {
                format!("≥ {}", grouped(new))
            } else {
                grouped(new)
            },
            note: "bugs first seen in this period".to_owned(),
            href: Some(build_link("/console/groups", &new_filter)),
            count: Some(new),
        },
    ];
    if period.step == TrendStep::Day {
        figures.extend(build_day_figures([now, before], filter, period));
    }
    figures
}

/// Returns the figures that are counted by day only.
fn build_day_figures(
    [now, before]: [PeriodTotals; 2],
    filter: VersionFilter<'_>,
    period: &OverviewPeriod,
) -> [Figure; 2] {
    let share = |totals: &PeriodTotals| format_percentage(totals.symbolicated, totals.frames);
    [
        Figure {
            label: "App frames symbolicated",
            value: share(&now).unwrap_or_else(|| "–".to_owned()),
            note: share(&before).map_or_else(
                || "no frames of the app in the period before".to_owned(),
                |share| format!("{share} in the period before"),
            ),
            href: Some(build_link("/console/symbols", &[("app", filter.app), ("version", filter.version)])),
            count: None,
        },
        Figure {
            label: "Newly affected devices",
            value: grouped(now.devices),
            note: format!(
                "on which a version had its first report; {} in the {} before",
                grouped(before.devices),
                period.format_length()
            ),
            href: None,
            count: None,
        },
    ]
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
    let new =
        GroupFilter { new_in: filter.scope.version.clone(), new_from: Some(period.begins), ..filter.clone() };
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
