//! `/console/groups/{id}`: one bug, its stack first.

use crate::console::bar::PageState;
use crate::console::components::breakdown::Breakdown;
use crate::console::components::chart::StackedBars;
use crate::console::components::rows::{ReportLine, report_path, tags};
use crate::console::components::stack::ThreadStack;
use crate::console::link::link;
use crate::console::pages::group_pages::group_work::{GroupState, GroupWork};
use crate::console::pages::report_pages::report;
use crate::console::session::SignedIn;
use crate::console::shell::{Shell, html};
use crate::console::words::{When, counted, duration, grouped, shown, shown_or};
use crate::http::problem::{Kind, Problem};
use crate::operations::groups::get::get_group;
use crate::requests::access::{Access, ReportsRead};
use crate::requests::input::{Path, Query};
use crate::state::Api;
use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use time::Duration;
use unslide_store::Uuid;
use unslide_store::queries::durations::{self, VersionDurations};
use unslide_store::queries::groups::{GroupCounts, GroupDay};
use unslide_store::queries::reports::{self, ReportFilter, ReportRow};
use unslide_store::queries::trends::VersionDay;

/// Reports that the page lists.
const MOST_REPORTS: u32 = 20;
/// Days of the chart.
const DAYS: i64 = 30;

/// Kinds of groups whose reports say where the time went.
const SLOW: [&str; 5] = ["hang", "cpu", "disk_write", "launch", "profile"];

#[derive(Template)]
#[template(path = "console/group.html")]
struct GroupPage {
    shell: Shell,
    title: String,
    culprit: String,
    tags: Vec<(&'static str, String)>,
    app: String,
    first: (When, String),
    last: (When, String),
    reports: String,
    devices: String,
    chart: StackedBars,
    versions: Breakdown,
    models: Breakdown,
    os_versions: Breakdown,
    newest: Option<ShownReport>,
    list: Vec<ReportLine>,
    all: String,
    days: i64,
    more: bool,
    state: GroupState,
    work: GroupWork,
    /// Where its flame graph is.
    flame: Option<String>,
    durations: Vec<DurationLine>,
}

/// How long the reports of a version took.
struct DurationLine {
    version: String,
    reports: String,
    median: String,
    longest: String,
}

/// The report whose stack stands for the group.
struct ShownReport {
    href: String,
    text: String,
    received: When,
    stack: Option<ThreadStack>,
}

/// `GET /console/groups/{id}`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<Uuid>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, api.clock.now());
    let Json(found) = get_group(State(api.clone()), access.clone(), Path(id)).await?;
    let group = &found.group;
    let filter = ReportFilter { group: Some(group.id), ..ReportFilter::default() };
    let mut tx = api.tenant(access.tenant()).await?;
    let rows = reports::list(&mut tx, &filter, None, MOST_REPORTS).await?;
    let is_slow = SLOW.contains(&group.kind.as_str());
    let durations = if is_slow { durations::of_group(&mut tx, group.id).await? } else { Vec::new() };
    tx.rollback().await?;
    let newest = match rows.reports.first() {
        Some(row) => match newest(&api, access, row).await {
            // It was deleted meanwhile.
            Err(problem) if problem.kind() == Kind::NotFound => None,
            newest => Some(newest?),
        },
        None => None,
    };
    let work = GroupWork::of(&api, access, &found, state.text("cursor")).await?;
    let first = now.date() - Duration::days(DAYS - 1);
    let title = shown_or(&group.title, "no title");
    html(&GroupPage {
        shell: Shell::of(signed.viewer, "groups", title.clone()),
        title,
        culprit: shown(&group.culprit),
        tags: tags(group, now),
        app: shown_or(&group.app, "unknown app"),
        first: (When::of(group.first_seen, now), shown_or(&group.first_version, "no version")),
        last: (When::of(group.last_seen, now), shown_or(&group.last_version, "no version")),
        reports: counted(group.reports, "report", "reports"),
        devices: counted(group.affected_devices, "device", "devices"),
        chart: StackedBars::of(days(&found), first, now.date()),
        versions: versions(&found),
        models: models(&found),
        os_versions: os_versions(&found),
        newest,
        list: rows.reports.iter().map(|row| ReportLine::of(row, now)).collect(),
        all: link("/console/reports", &[("group", Some(&id.to_string()))]),
        days: DAYS,
        more: rows.next.is_some(),
        state: GroupState::of(access, group),
        work,
        flame: is_slow.then(|| format!("/console/groups/{}/flame", group.id)),
        durations: durations.iter().map(DurationLine::of).collect(),
    })
}

impl DurationLine {
    fn of(one: &VersionDurations) -> DurationLine {
        let took = |millis: i64| duration(u64::try_from(millis).unwrap_or_default());
        DurationLine {
            version: shown_or(&one.version, "no version"),
            reports: grouped(one.reports),
            median: took(one.median_ms),
            longest: took(one.longest_ms),
        }
    }
}

async fn newest(api: &Api, access: &Access<ReportsRead>, row: &ReportRow) -> Result<ShownReport, Problem> {
    let id = row.report_id.to_string();
    let explain = report_path(&id, row.variant, "/explain");
    let stack = report::crashed_stack(api, access, (&id, row.variant), explain).await?;
    Ok(ShownReport {
        href: report_path(&id, row.variant, ""),
        text: report_path(&id, row.variant, "/text"),
        received: When::of(row.received_at, api.clock.now()),
        stack,
    })
}

/// The days of the group as rows of a chart with one series.
fn days(found: &GroupCounts) -> Vec<VersionDay> {
    let row = |day: &GroupDay| VersionDay {
        day: day.day,
        app: String::new(),
        version: Some("reports".to_owned()),
        reports: day.reports,
    };
    found.days.iter().map(row).collect()
}

fn versions(found: &GroupCounts) -> Breakdown {
    let id = found.group.id.to_string();
    let values = found.versions.iter().map(|one| {
        let pairs = [("group", Some(id.as_str())), ("version", Some(one.version.as_str()))];
        (one.version.as_str(), one.reports, Some(link("/console/reports", &pairs)))
    });
    Breakdown::of(("version", "Version", "no version"), found.group.reports, values)
}

fn models(found: &GroupCounts) -> Breakdown {
    let values = found.devices.iter().map(|one| (one.model.as_str(), one.reports, None));
    Breakdown::of(("device model", "Device", "unknown device"), found.group.reports, values)
}

fn os_versions(found: &GroupCounts) -> Breakdown {
    let values = found.os_versions.iter().map(|one| (one.os_version.as_str(), one.reports, None));
    Breakdown::of(("OS version", "System", "unknown system"), found.group.reports, values)
}
