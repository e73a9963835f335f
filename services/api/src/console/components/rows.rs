//! Rows of lists that several pages have.

use super::chart::Sparkline;
use crate::console::link::link;
use crate::console::words::{
    When, counted, duration, estimate, grouped, missing_command, shown, shown_or, when,
};
use std::collections::BTreeMap;
use time::{Date, Duration, OffsetDateTime};
use unslide_model::DebugId;
use unslide_store::Uuid;
use unslide_store::groups::GroupStatus;
use unslide_store::queries::groups::{GroupGrowth, ListedGroup};
use unslide_store::queries::missing::MissingDebugId;
use unslide_store::queries::reports::ReportRow;

/// What a kind of group is called.
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

/// The head of a column that groups can be sorted by.
pub struct GroupHead {
    pub label: &'static str,
    pub class: &'static str,
    /// True where the list goes by it.
    pub current: bool,
    /// The address of the list that goes by it.
    pub href: Option<String>,
}

/// The columns of groups that a list can go by, with the words for the parameter `sort`. The list goes by `current`.
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

/// A group in a list.
pub struct GroupLine {
    pub href: String,
    pub title: String,
    pub culprit: String,
    pub app: String,
    /// A class of the stylesheet, and the word.
    pub tags: Vec<(&'static str, String)>,
    pub trend: Sparkline,
    pub reports: String,
    /// What is said below the number of reports: devices, or how much the group grows.
    pub beside: String,
    pub first_seen: When,
    pub first_version: String,
    pub last_seen: When,
    pub last_version: String,
}

impl GroupLine {
    /// The line of a group, whose days are among `trends`.
    pub fn of(
        group: &ListedGroup,
        trends: &BTreeMap<Uuid, BTreeMap<Date, i64>>,
        (first, now): (Date, OffsetDateTime),
    ) -> GroupLine {
        let days = trends.get(&group.id);
        let none = BTreeMap::new();
        let (reports, beside) = counts(group);
        GroupLine {
            href: format!("/console/groups/{}", group.id),
            title: shown_or(&group.title, "no title"),
            culprit: shown(&group.culprit),
            app: shown_or(&group.app, "unknown app"),
            tags: tags(group, now),
            trend: Sparkline::of((days.unwrap_or(&none), group.estimated), (first, now.date())),
            reports,
            beside,
            first_seen: when(group.first_seen, now),
            first_version: shown(&group.first_version),
            last_seen: when(group.last_seen, now),
            last_version: shown(&group.last_version),
        }
    }
}

/// The number of reports, and what is said below it. Where the list is of groups that grow, of its period.
fn counts(group: &ListedGroup) -> (String, String) {
    match group.growth {
        None => (
            estimate(grouped(group.reports), group.estimated),
            counted(group.affected_devices, "device", "devices"),
        ),
        Some(GroupGrowth { reports, reports_before }) => (
            estimate(grouped(reports), group.estimated),
            estimate(
                format!("+{} on {}", grouped(reports - reports_before), grouped(reports_before)),
                group.estimated,
            ),
        ),
    }
}

/// How long a group is new.
const NEW: Duration = Duration::DAY;

/// The tags of a group.
pub fn tags(group: &ListedGroup, now: OffsetDateTime) -> Vec<(&'static str, String)> {
    let kind = kind_word(&group.kind);
    // The title alone may say it.
    let is_said = group.title.eq_ignore_ascii_case(kind);
    let mut tags: Vec<_> = (!is_said).then(|| ("", shown(kind))).into_iter().collect();
    let named = |word: &str, version: Option<&String>| match version.map(|version| shown(version)) {
        Some(version) if !version.is_empty() => format!("{word} in {version}"),
        _ => word.to_owned(),
    };
    match group.status {
        GroupStatus::Open if now - group.first_seen < NEW => tags.push(("warn", "new".to_owned())),
        GroupStatus::Open => {}
        GroupStatus::Regressed => tags.push(("bad", named("regressed", group.regressed_in.as_ref()))),
        GroupStatus::Resolved => tags.push(("", named("resolved", group.resolved_in.as_ref()))),
        GroupStatus::Ignored => tags.push(("", "ignored".to_owned())),
    }
    if let Some(assignee) = &group.assignee {
        tags.push(("", format!("assigned to {}", shown(assignee))));
    }
    if group.provisional {
        tags.push(("warn", "provisional: symbols missing".to_owned()));
    }
    tags
}

/// How far a report's symbolication got, as a class of the stylesheet, a mark and a word.
pub fn status_mark(status: &str) -> (&'static str, &'static str, String) {
    match status {
        "complete" => ("good", "●", "complete".to_owned()),
        "partial" => ("warn", "◐", "partial".to_owned()),
        "none" => ("bad", "○", "not symbolicated".to_owned()),
        other => ("", "○", shown(other)),
    }
}

/// A report in a list.
pub struct ReportLine {
    pub href: String,
    pub what: String,
    pub top: String,
    pub app: String,
    pub version: String,
    pub device: String,
    pub os: String,
    pub status: (&'static str, &'static str, String),
    pub missing: bool,
    pub received: When,
}

impl ReportLine {
    /// The line of a report.
    pub fn of(report: &ReportRow, now: OffsetDateTime) -> ReportLine {
        let os = [report.os_name.as_deref(), report.os_version.as_deref()];
        let os: Vec<&str> = os.into_iter().flatten().collect();
        ReportLine {
            href: report_path(report.report_id.to_string().as_str(), report.variant, ""),
            what: what(report),
            top: top(report),
            app: shown_or(&report.app, "unknown app"),
            version: shown(&version(report)),
            device: shown(report.model.as_deref().unwrap_or("unknown device")),
            os: shown(&os.join(" ")),
            status: status_mark(&report.status),
            missing: report.symbols_missing,
            received: when(report.received_at, now),
        }
    }
}

/// Version and build.
pub fn version(report: &ReportRow) -> String {
    match (report.version.as_str(), report.build.as_str()) {
        ("", "") => "no version".to_owned(),
        (version, "") => version.to_owned(),
        ("", build) => format!("build {build}"),
        (version, build) => format!("{version} ({build})"),
    }
}

/// The path of a report, or of what belongs to it.
pub fn report_path(id: &str, variant: u32, rest: &str) -> String {
    let variant = (variant > 0).then(|| variant.to_string());
    link(&format!("/console/reports/{id}{rest}"), &[("variant", variant.as_deref())])
}

/// What happened, in one line.
pub fn what(report: &ReportRow) -> String {
    let of = |key: &str| report.summary.get(key).and_then(|value| value.as_str());
    let name = of("exception").or_else(|| of("signal")).unwrap_or(kind_word(&report.kind));
    if let Some(millis) = report.summary.get("duration_ms").and_then(serde_json::Value::as_u64) {
        return shown(&format!("{} for {}", kind_word(&report.kind), duration(millis)));
    }
    let code = of("code").filter(|code| *code != name).map(|code| format!(" ({code})")).unwrap_or_default();
    shown_or(&format!("{name}{code}"), "no exception")
}

/// The function that was running.
fn top(report: &ReportRow) -> String {
    let frames = report.summary.get("top_frames").and_then(|frames| frames.as_array());
    let names = frames.into_iter().flatten().filter_map(|frame| frame.get("function")?.as_str());
    // A placeholder of the device, such as `<redacted>`, is no name.
    let named = { names }.find(|name| !name.starts_with('<'));
    shown(named.or(report.reason.as_deref()).unwrap_or_default())
}

/// An image without symbols.
pub struct MissingLine {
    pub name: String,
    pub arch: String,
    pub debug_id: DebugId,
    pub apps: String,
    pub versions: String,
    pub reports: String,
    pub reports_href: String,
    pub system: bool,
    pub command: String,
    pub last_seen: When,
}

impl MissingLine {
    /// The line of an image.
    pub fn of(missing: &MissingDebugId, now: OffsetDateTime) -> MissingLine {
        let id = missing.image.debug_id.to_string();
        MissingLine {
            name: shown_or(&missing.image.name, "unnamed image"),
            arch: shown(&missing.image.arch),
            debug_id: missing.image.debug_id,
            apps: few(&missing.apps),
            versions: few(&missing.versions),
            reports: grouped(missing.image.reports),
            reports_href: link("/console/reports", &[("debug_id", Some(&id))]),
            system: missing.system,
            command: missing_command(&shown(&missing.image.name), &missing.image.arch),
            last_seen: when(missing.last_seen, now),
        }
    }
}

/// The first few of some names.
fn few(names: &[String]) -> String {
    const FEW: usize = 3;
    let mut text: Vec<String> = names.iter().take(FEW).map(|name| shown_or(name, "none")).collect();
    if names.len() > FEW {
        text.push(format!("{} more", names.len() - FEW));
    }
    text.join(", ")
}
