//! `/console/groups/{id}`: one bug, its stack first.

use crate::components::breakdown::{Breakdown, BreakdownWords};
use crate::components::rows::{self, report_path};
use crate::components::stack::ThreadStack;
use crate::pages::group_pages::group_context::GroupContextSection;
use crate::pages::group_pages::group_trend::{GROUP_DAYS, GroupTrendSection};
use crate::pages::group_pages::group_work::{self, GroupWork, may_write};
use crate::pages::report_pages::context;
use crate::pages::report_pages::report::{self, ReportExtract};
use crate::prelude::*;
use time::OffsetDateTime;
use unslide_api::feature::panels::Panels;
use unslide_api::feature::panels::{PanelLink, PanelSection, PanelSlot, collect_panels};
use unslide_api::feature::site::{GroupFormatQuery, choose_report, get_group, load_group};
use unslide_model::GroupRef;
use unslide_report::ReportContext;
use unslide_report::device_models::name_with_code;
use unslide_site::{duration, text_or};
use unslide_store::groups::{GroupAction, GroupStatus};
use unslide_store::queries::durations::{self, VersionDurations};
use unslide_store::queries::groups::{GroupCounts, GroupShare, GroupVariant, ListedGroup};
use unslide_store::queries::reports::{self, ReportFilter, ReportRow};
use unslide_store::queries::trends;

/// Maximum number of reports on the page.
const MOST_REPORTS: u32 = 20;
/// Maximum number of versions that are offered to resolve a group in.
const MOST_VERSIONS: u32 = 20;
/// Callers of a variant's function that the page names.
const SHOWN_CALLERS: usize = 4;

/// Kinds of groups with reports that hold sampled stacks.
const SLOW: [&str; 5] = ["hang", "cpu", "disk_write", "launch", "profile"];

#[derive(Template)]
#[template(path = "console/pages/group_pages/group.html", askama = escaping)]
struct GroupPage {
    shell: Shell,
    group: ListedGroup,
    trend: GroupTrendSection,
    versions: Breakdown,
    models: Breakdown,
    os_versions: Breakdown,
    context: GroupContextSection,
    representative: Option<ShownReport>,
    variants: Vec<VariantLine>,
    share: Option<ShareOfSessions>,
    may_write: bool,
    work: GroupWork,
    /// True if its reports hold sampled stacks.
    is_slow: bool,
    durations: Vec<VersionDurations>,
    /// Versions that may resolve it.
    recent_versions: Vec<String>,
    /// Pages of features about it, beside its actions.
    links: Vec<PanelLink>,
    /// Sections of features about it.
    panels: Vec<PanelSection>,
}

/// Reports with the same innermost functions, as a line of the page.
struct VariantLine {
    /// The innermost function.
    function: String,
    /// The functions that called it.
    callers: String,
    reports: String,
    last_seen: OffsetDateTime,
    last_version: String,
    /// The path of the newest report.
    path: String,
}

impl VariantLine {
    fn from_variant(one: &GroupVariant) -> VariantLine {
        let (function, callers) = one.functions.split_first().unzip();
        let callers: &[String] = callers.unwrap_or_default();
        VariantLine {
            function: text_or(function.map_or("", String::as_str), "no stack").to_owned(),
            callers: callers.iter().take(SHOWN_CALLERS).cloned().collect::<Vec<_>>().join(" \u{2190} "),
            reports: counted(one.reports, "report", "reports"),
            last_seen: one.last_seen,
            last_version: one.last_version.clone(),
            path: report_path(one.report_id, u32::try_from(one.variant).unwrap_or(0), ""),
        }
    }
}

/// The part of the app's sessions and installations that a group hit, as texts.
struct ShareOfSessions {
    sessions: String,
    installations: Option<String>,
}

impl ShareOfSessions {
    fn from_share(share: GroupShare) -> ShareOfSessions {
        let sessions = words::estimate(counted(share.sessions, "session", "sessions"), share.estimated);
        let installations = counted(share.installations, "installation", "installations");
        let part = |some: i64, all: i64| words::format_percentage(some.min(all), all).unwrap_or_default();
        ShareOfSessions {
            sessions: format!("{} of {sessions}", part(share.reports, share.sessions)),
            installations: (share.affected_devices > 0 && share.installations > 0).then(|| {
                format!("{} of \u{2248} {installations}", part(share.affected_devices, share.installations))
            }),
        }
    }
}

/// Describes a bug in one line, for a message to others.
fn describe_group(group: &ListedGroup) -> String {
    let ListedGroup { title, app, first_version: first, last_version: last, .. } = group;
    let versions = if first == last { last.clone() } else { format!("{first} to {last}") };
    let reports = words::estimate(counted(group.reports, "report", "reports"), group.estimated);
    let devices = counted(group.affected_devices, "device", "devices");
    let (title, app) = (text_or(title, "no title"), text_or(app, "an unknown app"));
    format!("{title}: {reports} on {devices}, {app} {versions}").trim_end().to_owned()
}

/// Returns the path by which others open the page of a group.
fn shared_path(group: &ListedGroup) -> String {
    match &group.short_id {
        Some(short_id) => format!("/groups/{short_id}"),
        None => format!("/groups/{}", group.id),
    }
}

/// The report with the stack that the page shows.
struct ShownReport {
    row: ReportRow,
    /// The reason for this choice.
    why: &'static str,
    stack: Option<ThreadStack>,
    context: ReportContext,
    /// What the analysis says about the fault, in sentences.
    findings: Vec<String>,
}

pub async fn render_page(
    State(symbolication): State<Arc<Symbolication>>,
    State(panels): State<Arc<Panels>>,
    signed: SignedIn<ReportsRead>,
    Path(named): Path<GroupRef>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, symbolication.storage.clock.now());
    let is_short = matches!(named, GroupRef::ShortId(_));
    let found = load_group(&symbolication.storage, access, named).await?;
    let group = &found.group;
    if is_short || found.redirected_from.is_some() {
        // Not permanent, because the old id may be a group again later.
        return Ok(Redirect::temporary(&format!("/console/groups/{}", group.id)).into_response());
    }
    let filter = ReportFilter { group: Some(group.id), ..ReportFilter::default() };
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let mut rows = reports::list_reports(&mut tx, &filter, None, MOST_REPORTS).await?;
    rows.reports.retain(|row| !row.body_dropped);
    let is_slow = SLOW.contains(&group.kind.as_str());
    let trend = GroupTrendSection::load_for_group(&mut tx, &found, &state, now).await?;
    let recent_versions = trends::recent_versions(&mut tx, Some(&group.app), MOST_VERSIONS).await?;
    let durations = if is_slow { durations::group_durations(&mut tx, group.id).await? } else { Vec::new() };
    let context = GroupContextSection::load_for_group(&symbolication, &mut tx, group.id, &state).await?;
    let sections = collect_panels(&panels, &mut tx, PanelSlot::Group(group)).await?;
    tx.rollback();
    let (panels, actions): (Vec<_>, Vec<_>) =
        sections.into_iter().partition(|section| !section.heading.is_empty());
    let ends: Vec<_> =
        rows.reports.iter().map(|row| (row.is_complete(), row.frames.own_symbolicated)).collect();
    let chosen = choose_report(&ends).and_then(|(at, why)| Some((rows.reports.get(at)?, why)));
    let representative = match chosen {
        Some((row, why)) => match shown_report(&symbolication, access, row, why).await {
            // The report was deleted since, or its body dropped.
            Err(problem) if matches!(problem.kind(), Kind::NotFound | Kind::BodyNotKept) => None,
            shown => Some(shown?),
        },
        None => None,
    };
    let name = signed.viewer.name.as_deref();
    let work =
        GroupWork::load_for_group(&symbolication.storage, access, name, &found, state.get_text("cursor"))
            .await?;
    render_html(&GroupPage {
        shell: Shell::for_viewer(signed.viewer, "groups", text_or(&group.title, "no title")),
        trend,
        versions: version_breakdown(&found),
        models: model_breakdown(&found),
        os_versions: os_versions(&found),
        context,
        representative,
        variants: found.variants.iter().map(VariantLine::from_variant).collect(),
        share: found.share.map(ShareOfSessions::from_share),
        may_write: may_write(&signed.access, group),
        work,
        is_slow,
        durations,
        recent_versions,
        links: actions.into_iter().flat_map(|section| section.links).collect(),
        panels,
        group: found.group,
    })
}

/// `GET /console/groups/{id}/markdown`: the group as Markdown, for a ticket.
pub async fn get_markdown(
    symbolication: State<Arc<Symbolication>>,
    signed: SignedIn<ReportsRead>,
    id: Path<GroupRef>,
) -> Result<Response, Problem> {
    let query = GroupFormatQuery { format: Some("markdown".to_owned()), ..GroupFormatQuery::default() };
    Box::pin(get_group(symbolication, signed.access, id, Query(query))).await
}

/// `/groups/{id}`: the short address of a group's page.
pub async fn redirect_to_page(Path(named): Path<GroupRef>) -> Redirect {
    let name = match named {
        GroupRef::Id(id) => id.to_string(),
        GroupRef::ShortId(name) => name,
    };
    Redirect::temporary(&format!("/console/groups/{name}"))
}

/// Formats the duration of a report.
fn took(millis: i64) -> String {
    duration(u64::try_from(millis).unwrap_or_default())
}

async fn shown_report(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    row: &ReportRow,
    why: &'static str,
) -> Result<ShownReport, Problem> {
    let (id, variant) = (row.report_id, row.variant);
    let explain = report_path(id, variant, "/explain");
    let ReportExtract { stack, context, findings } =
        report::load_extract(symbolication, access, &id.to_string(), variant, explain).await?;
    Ok(ShownReport { row: row.clone(), why, stack, context, findings })
}

fn version_breakdown(found: &GroupCounts) -> Breakdown {
    let values = found.versions.iter().map(|one| (one.version.as_str(), one.reports));
    let words = BreakdownWords { by: "version", head: "Version", unknown: "no version" };
    build_breakdown(found, words, "version", values, str::to_owned)
}

fn model_breakdown(found: &GroupCounts) -> Breakdown {
    let values = found.devices.iter().map(|one| (one.model.as_str(), one.reports));
    let words = BreakdownWords { by: "device model", head: "Device", unknown: "unknown device" };
    build_breakdown(found, words, "model", values, |code| name_with_code(code).into_owned())
}

fn os_versions(found: &GroupCounts) -> Breakdown {
    let values = found.os_versions.iter().map(|one| (one.os_version.as_str(), one.reports));
    let words = BreakdownWords { by: "OS version", head: "System", unknown: "unknown system" };
    build_breakdown(found, words, "os_version", values, str::to_owned)
}

/// Returns the table of values as `name` shows them, with links to the group's reports with that value of a filter.
fn build_breakdown<'v>(
    found: &GroupCounts,
    words: BreakdownWords<'_>,
    filter: &str,
    values: impl Iterator<Item = (&'v str, i64)>,
    name: impl Fn(&str) -> String,
) -> Breakdown {
    let id = found.group.id.to_string();
    let values: Vec<_> = values
        .map(|(value, reports)| {
            let without = value.is_empty().then_some(filter);
            let pairs = [("group", Some(id.as_str())), (filter, Some(value)), ("without", without)];
            (name(value), reports, Some(build_link("/console/reports", &pairs)))
        })
        .collect();
    let values = values.iter().map(|(name, reports, link)| (name.as_str(), *reports, link.clone()));
    Breakdown::from_values(words, found.group.reports, found.group.estimated, values)
}
