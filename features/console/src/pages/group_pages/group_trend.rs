//! The chart of a group: its reports by day and version, or by hour.

use crate::components::chart::{CHART_VERSIONS_LIMIT, ChartTimes, RELEASES_LIMIT, StackedBars};
use crate::prelude::*;
use time::{Duration, OffsetDateTime};
use unslide_api::feature::site::{GROUP_HOURS, Tx};
use unslide_site::BarSelect;
use unslide_store::TenantTx;
use unslide_store::queries::groups::GroupCounts;
use unslide_store::queries::trends::{self, GroupHour, VersionCount};

/// Days of the chart by day.
pub const GROUP_DAYS: i64 = 30;
/// The parameter with the step of the chart, and its value for hours.
const STEP: (&str, &str) = ("step", "hour");

/// The reports of a group over time, with a choice of the step and the version.
pub struct GroupTrendSection {
    pub chart: StackedBars,
    pub heading: String,
    /// The steps: the label, the path, and whether it is the current one.
    pub steps: [(String, String, bool); 2],
    /// The field for the version; absent for hours, which have no version, and for a group of one version.
    pub version: Option<BarSelect>,
    pub is_hourly: bool,
}

impl GroupTrendSection {
    /// Loads the counts for the step and the version in the page's address.
    pub async fn load_for_group(
        tx: &mut Tx<TenantTx>,
        found: &GroupCounts,
        state: &PageState,
        now: OffsetDateTime,
    ) -> Result<GroupTrendSection, Problem> {
        let id = found.group.id.to_string();
        let path = format!("/console/groups/{id}");
        let is_hourly = state.get(STEP.0) == Some(STEP.1);
        let labels = [format!("{GROUP_DAYS} days"), format!("{GROUP_HOURS} hours")];
        let period = if is_hourly { &labels[1] } else { &labels[0] };
        let heading = format!("Reports in the last {period}");
        let link = |step| format!("{}#trend", build_link(&path, &[(STEP.0, step)]));
        let [days, hours] = labels;
        let steps = [(days, link(None), !is_hourly), (hours, link(Some(STEP.1)), is_hourly)];
        let estimated = found.group.estimated;
        if is_hourly {
            let last = now.truncate_to_hour();
            let times = ChartTimes::from_hours(last - Duration::hours(GROUP_HOURS - 1), last);
            let rows = found.hours.iter().map(to_row).collect();
            let chart = StackedBars::from_rows("Reports", estimated, rows, &times);
            return Ok(GroupTrendSection { chart, heading, steps, version: None, is_hourly });
        }
        let first = now.date() - Duration::days(GROUP_DAYS - 1);
        let times = ChartTimes::from_days(first, now.date());
        let version = state.get("version");
        let rows =
            trends::read_group_versions(tx, found.group.id, version, first, CHART_VERSIONS_LIMIT).await?;
        let releases = trends::first_days(tx, Some(&found.group.app), first, RELEASES_LIMIT).await?;
        let days = GROUP_DAYS.to_string();
        let href = |row: &VersionCount| {
            let version = row.version.as_deref();
            let without = version.filter(|version| version.is_empty()).map(|_| "version");
            let pairs = [
                ("group", Some(id.as_str())),
                ("version", version),
                ("without", without),
                ("days", Some(&days)),
            ];
            Some(build_link("/console/reports", &pairs))
        };
        Ok(GroupTrendSection {
            chart: StackedBars::from_rows("Reports", estimated, rows, &times)
                .with_links(href)
                .with_releases(&releases, &times),
            heading,
            steps,
            version: version_select(found, version),
            is_hourly,
        })
    }
}

/// Returns the field for the version of a group with several.
fn version_select(found: &GroupCounts, current: Option<&str>) -> Option<BarSelect> {
    let names: Vec<&str> =
        found.versions.iter().map(|one| one.version.as_str()).filter(|name| !name.is_empty()).collect();
    if names.len() < 2 && current.is_none() {
        return None;
    }
    let missing = current.filter(|current| !names.contains(current));
    let all = [(String::new(), "all versions".to_owned(), current.is_none())].into_iter();
    let named = names.iter().copied().chain(missing);
    let named = named.map(|name| (name.to_owned(), name.to_owned(), current == Some(name)));
    Some(BarSelect::from_options("version", "Version", all.chain(named).collect()))
}

/// Returns an hour as a row of a chart with one series.
fn to_row(hour: &GroupHour) -> VersionCount {
    let version = Some("reports".to_owned());
    VersionCount { at: hour.hour, app: String::new(), version, count: hour.reports }
}
