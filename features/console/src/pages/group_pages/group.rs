//! `/console/groups/{id}`: one bug, its stack first.

use crate::components::breakdown::{Breakdown, BreakdownWords};
use crate::components::chart::{ChartTimes, StackedBars};
use crate::components::rows::{self, report_path};
use crate::components::stack::ThreadStack;
use crate::pages::group_pages::group_work::{self, GroupWork, may_write};
use crate::pages::report_pages::report;
use crate::prelude::*;
use crate::words::{duration, text_or};
use time::Duration;
use unslide_api::feature::site::{choose_report, load_group};
use unslide_store::Uuid;
use unslide_store::groups::{GroupAction, GroupStatus};
use unslide_store::queries::durations::{self, VersionDurations};
use unslide_store::queries::groups::{GroupCounts, GroupDay, ListedGroup};
use unslide_store::queries::reports::{self, ReportFilter, ReportRow};
use unslide_store::queries::trends::VersionCount;

/// Maximum number of reports on the page.
const MOST_REPORTS: u32 = 20;
const DAYS: i64 = 30;

/// Kinds of groups with reports that hold sampled stacks.
const SLOW: [&str; 5] = ["hang", "cpu", "disk_write", "launch", "profile"];

#[derive(Template)]
#[template(path = "console/pages/group_pages/group.html", askama = escaping)]
struct GroupPage {
    shell: Shell,
    group: ListedGroup,
    chart: StackedBars,
    versions: Breakdown,
    models: Breakdown,
    os_versions: Breakdown,
    representative: Option<ShownReport>,
    list: Vec<ReportRow>,
    more: bool,
    may_write: bool,
    work: GroupWork,
    /// True if its reports hold sampled stacks.
    is_slow: bool,
    durations: Vec<VersionDurations>,
}

/// The report with the stack that the page shows.
struct ShownReport {
    row: ReportRow,
    /// The reason for this choice.
    why: &'static str,
    stack: Option<ThreadStack>,
}

pub async fn render_page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<Uuid>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, api.clock.now());
    let found = load_group(&api, access, id).await?;
    let group = &found.group;
    if found.redirected_from.is_some() {
        // Not permanent, because the old id may be a group again later.
        return Ok(Redirect::temporary(&format!("/console/groups/{}", group.id)).into_response());
    }
    let filter = ReportFilter { group: Some(group.id), ..ReportFilter::default() };
    let mut tx = api.tenant(access.tenant()).await?;
    let rows = reports::list_reports(&mut tx, &filter, None, MOST_REPORTS).await?;
    let is_slow = SLOW.contains(&group.kind.as_str());
    let durations = if is_slow { durations::group_durations(&mut tx, group.id).await? } else { Vec::new() };
    tx.rollback();
    let ends: Vec<_> =
        rows.reports.iter().map(|row| (row.status.as_str(), row.frames.symbolicated)).collect();
    let chosen = choose_report(&ends).and_then(|(at, why)| Some((rows.reports.get(at)?, why)));
    let representative = match chosen {
        Some((row, why)) => match shown_report(&api, access, row, why).await {
            // The report was deleted since.
            Err(problem) if problem.kind() == Kind::NotFound => None,
            shown => Some(shown?),
        },
        None => None,
    };
    let work = GroupWork::load_for_group(&api, access, &found, state.get_text("cursor")).await?;
    let first = now.date() - Duration::days(DAYS - 1);
    render_html(&GroupPage {
        shell: Shell::for_viewer(signed.viewer, "groups", text_or(&group.title, "no title")),
        chart: StackedBars::from_rows(
            "Reports",
            group.estimated,
            to_day_rows(&found),
            &ChartTimes::from_days(first, now.date()),
        ),
        versions: version_breakdown(&found),
        models: model_breakdown(&found),
        os_versions: os_versions(&found),
        representative,
        more: rows.next.is_some(),
        list: rows.reports,
        may_write: may_write(&signed.access, group),
        work,
        is_slow,
        durations,
        group: found.group,
    })
}

/// Formats the duration of a report.
fn took(millis: i64) -> String {
    duration(u64::try_from(millis).unwrap_or_default())
}

async fn shown_report(
    api: &Api,
    access: &Access<ReportsRead>,
    row: &ReportRow,
    why: &'static str,
) -> Result<ShownReport, Problem> {
    let (id, variant) = (row.report_id, row.variant);
    let explain = report_path(id, variant, "/explain");
    let stack = report::crashed_stack(api, access, &id.to_string(), variant, explain).await?;
    Ok(ShownReport { row: row.clone(), why, stack })
}

/// Returns the days of the group as rows of a chart with one series.
fn to_day_rows(found: &GroupCounts) -> Vec<VersionCount> {
    let row = |day: &GroupDay| VersionCount {
        at: day.day.midnight().assume_utc(),
        app: String::new(),
        version: Some("reports".to_owned()),
        count: day.reports,
    };
    found.days.iter().map(row).collect()
}

fn version_breakdown(found: &GroupCounts) -> Breakdown {
    let values = found.versions.iter().map(|one| (one.version.as_str(), one.reports));
    build_breakdown(
        found,
        BreakdownWords { by: "version", head: "Version", unknown: "no version" },
        "version",
        values,
    )
}

fn model_breakdown(found: &GroupCounts) -> Breakdown {
    let values = found.devices.iter().map(|one| (one.model.as_str(), one.reports));
    build_breakdown(
        found,
        BreakdownWords { by: "device model", head: "Device", unknown: "unknown device" },
        "model",
        values,
    )
}

fn os_versions(found: &GroupCounts) -> Breakdown {
    let values = found.os_versions.iter().map(|one| (one.os_version.as_str(), one.reports));
    build_breakdown(
        found,
        BreakdownWords { by: "OS version", head: "System", unknown: "unknown system" },
        "os_version",
        values,
    )
}

/// Returns the table of values, with links to the group's reports with that value of a filter.
fn build_breakdown<'v>(
    found: &GroupCounts,
    words: BreakdownWords,
    filter: &str,
    values: impl Iterator<Item = (&'v str, i64)>,
) -> Breakdown {
    let id = found.group.id.to_string();
    let values = values.map(|(value, reports)| {
        let pairs = [("group", Some(id.as_str())), (filter, Some(value))];
        (value, reports, (!value.is_empty()).then(|| build_link("/console/reports", &pairs)))
    });
    Breakdown::from_values(words, found.group.reports, found.group.estimated, values)
}
