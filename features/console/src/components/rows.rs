//! Rows of lists on several pages.

use std::fmt::Display;
use time::{Date, Duration, OffsetDateTime};
use unslide_model::SymbolName;
use unslide_report::device_models;
use unslide_site::{build_link, counted, duration, estimate, grouped, text_or};
use unslide_store::groups::GroupStatus;
use unslide_store::queries::groups::{GroupGrowth, ListedGroup};
use unslide_store::queries::reports::ReportRow;
use unslide_store::reports::FrameTotals;

/// Returns the display name of a kind of group.
pub fn kind_word(kind: &str) -> &str {
    match kind {
        "stack_overflow" => "stack overflow",
        "out_of_memory" => "out of memory",
        "memory_warning" => "memory warning",
        "cpu" => "CPU use",
        "disk_write" => "disk writes",
        "launch" => "slow launch",
        "user" => "reported by the app",
        "javascript" => "JavaScript",
        kind => kind,
    }
}

/// The head of a column by which groups can be sorted.
pub struct GroupHead {
    pub label: &'static str,
    pub class: &'static str,
    /// True if the list is sorted by it.
    pub current: bool,
    /// The address of the list that is sorted by it.
    pub href: Option<String>,
}

/// Returns the columns by which groups can be sorted, with the values of the parameter `sort`. `current` is
/// the current one.
pub fn group_heads(current: Option<&str>, href: impl Fn(&'static str) -> Option<String>) -> Vec<GroupHead> {
    let columns = [
        ("reports", "Reports", "num"),
        ("first_seen", "First seen", "late"),
        ("last_seen", "Last seen", "late"),
    ];
    let head = |(sort, label, class)| {
        let is_current = current == Some(sort);
        GroupHead { label, class, current: is_current, href: href(sort).filter(|_| !is_current) }
    };
    columns.into_iter().map(head).collect()
}

/// Returns the number of reports, and the text below it. In a list of growing groups, both are of its period.
pub fn counts(group: &ListedGroup) -> (String, String) {
    match group.growth {
        None => {
            let devices = counted(group.affected_devices, "device", "devices");
            let beside = match group.all_reports {
                Some(all) if all != group.reports => format!("of {} · {devices}", grouped(all)),
                _ => devices,
            };
            (estimate(grouped(group.reports), group.estimated), beside)
        }
        Some(GroupGrowth { reports, reports_before }) => (
            estimate(grouped(reports), group.estimated),
            estimate(
                format!("+{} on {}", grouped(reports - reports_before), grouped(reports_before)),
                group.estimated,
            ),
        ),
    }
}

/// The reports that a list of groups counts.
#[derive(Clone, Debug, Default)]
pub struct CountedScope {
    /// Only those of this version.
    pub version: Option<String>,
    /// Only those of this period of the page.
    pub days: Option<String>,
    /// In a list of growing groups: those from this day on.
    pub growth_from: Option<Date>,
}

impl CountedScope {
    /// Returns the path of the reports that [`counts`] counts.
    pub fn reports_path(&self, group: &ListedGroup) -> String {
        let id = group.id.to_string();
        let from = self.growth_from.filter(|_| group.growth.is_some());
        let from = from.map(|day| format!("{day}T00:00:00Z"));
        let days = self.days.as_deref().filter(|_| from.is_none());
        let pairs = [
            ("group", Some(id.as_str())),
            ("version", self.version.as_deref()),
            ("days", days),
            ("from", from.as_deref()),
        ];
        build_link("/console/reports", &pairs)
    }
}

/// Returns the number of reports that [`counts`] shows.
pub fn counted_reports(group: &ListedGroup) -> i64 {
    group.growth.map_or(group.reports, |growth| growth.reports)
}

/// Returns the path of the reports with an image.
pub fn image_path(debug_id: impl Display) -> String {
    format!("/console/reports?debug_id={debug_id}")
}

/// How long a group counts as new.
const NEW_GROUP_MAX_AGE: Duration = Duration::DAY;

/// Returns the tags of a group.
pub fn tags(group: &ListedGroup, now: OffsetDateTime) -> Vec<(&'static str, String)> {
    let kind = kind_word(&group.kind);
    // The title alone may say it.
    let is_said = group.title.eq_ignore_ascii_case(kind);
    let mut tags: Vec<_> = (!is_said).then(|| ("", kind.to_owned())).into_iter().collect();
    let named = |word: &str, version: Option<&String>| match version {
        Some(version) if !version.is_empty() => format!("{word} in {version}"),
        _ => word.to_owned(),
    };
    match group.status {
        GroupStatus::Open if now - group.first_seen < NEW_GROUP_MAX_AGE => {
            tags.push(("warn", "new".to_owned()));
        }
        GroupStatus::Open => {}
        GroupStatus::Regressed => tags.push(("bad", named("regressed", group.regressed_in.as_ref()))),
        GroupStatus::Resolved => tags.push((
            "",
            match &group.resolved_after {
                Some(version) => format!("resolved after {version}"),
                None => named("resolved", group.resolved_in.as_ref()),
            },
        )),
        GroupStatus::Ignored => tags.push(("", describe_ignored(group))),
    }
    if let Some(assignee) = &group.assignee {
        tags.push(("", format!("assigned to {assignee}")));
    }
    if group.provisional {
        tags.push(("warn", "provisional: symbols missing".to_owned()));
    }
    tags
}

/// Describes an ignored group, with what opens it again.
fn describe_ignored(group: &ListedGroup) -> String {
    let limits = [
        group.ignored_until.map(|until| until.date().to_string()),
        group.ignored_until_reports.map(|limit| counted(limit, "report", "reports")),
        group.ignored_until_devices.map(|limit| counted(limit, "device", "devices")),
        group.ignored_after.as_ref().map(|version| format!("a version after {version}")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if limits.is_empty() { "ignored".to_owned() } else { format!("ignored until {}", limits.join(" or ")) }
}

/// Returns how far the symbolication of the app's own frames got, as a class of the stylesheet, a mark and a word. Frames
/// of the system do not count: an app's team cannot complete them.
pub fn symbols_mark(report: &ReportRow) -> (&'static str, &'static str, &'static str) {
    let FrameTotals { own, own_symbolicated, .. } = report.frames;
    match (own, own_symbolicated) {
        (0, _) => ("", "–", "no app frames"),
        _ if report.is_complete() => ("good", "●", "complete"),
        (_, 0) => ("bad", "○", "missing"),
        _ => ("warn", "◐", "partial"),
    }
}

/// Returns the name of a device, and its code if that is not the name itself.
pub fn device(report: &ReportRow) -> (&str, &str) {
    let code = report.model.as_deref().unwrap_or_default();
    match device_models::find_device_name(code) {
        Some(name) => (name, code),
        None => (text_or(code, "unknown device"), ""),
    }
}

pub fn version(report: &ReportRow) -> String {
    match (report.version.as_str(), report.build.as_str()) {
        ("", "") => "no version".to_owned(),
        (version, "") => version.to_owned(),
        ("", build) => format!("build {build}"),
        (version, build) => format!("{version} ({build})"),
    }
}

/// Formats the system of the device and its version.
pub fn system(report: &ReportRow) -> String {
    let names = [report.os_name.as_deref(), report.os_version.as_deref()];
    names.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns the path of a report, or of a page below it.
pub fn report_path(id: impl Display, variant: u32, rest: &str) -> String {
    let variant = (variant > 0).then(|| variant.to_string());
    build_link(&format!("/console/reports/{id}{rest}"), &[("variant", variant.as_deref())])
}

/// Describes a report in one line.
pub fn what(report: &ReportRow) -> String {
    let of = |key: &str| report.summary.get(key).and_then(|value| value.as_str());
    let name = of("exception").or_else(|| of("signal")).unwrap_or(kind_word(&report.kind));
    if let Some(millis) = report.summary.get("duration_ms").and_then(serde_json::Value::as_u64) {
        return format!("{} for {}", kind_word(&report.kind), duration(millis));
    }
    let code = of("code").filter(|code| *code != name).map(|code| format!(" ({code})")).unwrap_or_default();
    text_or(&format!("{name}{code}"), "no exception").to_owned()
}

/// Returns the function that was running.
pub fn top(report: &ReportRow) -> &str {
    let frames = report.summary.get("top_frames").and_then(|frames| frames.as_array());
    let names = frames.into_iter().flatten().filter_map(|frame| frame.get("function")?.as_str());
    // Stored reports may have a placeholder of the device, such as `<redacted>`.
    let named = { names }.find(|name| SymbolName::is_function(name.as_bytes()));
    named.or(report.reason.as_deref()).unwrap_or_default()
}
