//! Facts about a report from its row, for its pages.

use crate::components::rows::{self, version};
use unslide_report::device_models::name_with_code;
use unslide_site::words::counted;
use unslide_site::{bytes, text_or};
use unslide_store::queries::reports::ReportRow;
use unslide_store::reports::CrashTeller;

/// The maximum number of characters of a function in the title of a tab.
const TAB_CHARS_LIMIT: usize = 60;

/// Returns the function that was running and the beginning of the report's id, for the title of a tab.
pub fn describe_tab(listed: &ReportRow) -> String {
    let top: String = rows::top(listed).chars().take(TAB_CHARS_LIMIT).collect();
    let id: String = listed.report_id.to_string().chars().take(8).collect();
    if top.is_empty() { id } else { format!("{top} · {id}") }
}

/// Returns facts about the app and the device.
pub fn list_facts(listed: &ReportRow, size: u64) -> Vec<(&'static str, String)> {
    let of = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let frames = &listed.frames;
    let named = |named: u32, all: u32| match all {
        0 => String::new(),
        all => format!("{named} of {} symbolicated", counted(all, "frame", "frames")),
    };
    let others = named(
        frames.symbolicated.saturating_sub(frames.own_symbolicated),
        frames.total.saturating_sub(frames.own),
    );
    let facts = [
        ("App", text_or(&listed.app, "unknown").to_owned()),
        ("Version", version(listed)),
        ("Device", name_with_code(listed.model.as_deref().unwrap_or_default()).into_owned()),
        ("System", rows::system(listed)),
        ("Processor", of(listed.summary.get("cpu_arch").and_then(|value| value.as_str()))),
        ("Process", of(listed.process.as_deref())),
        ("Frames of the app", named(frames.own_symbolicated, frames.own)),
        ("Frames of the system", others),
        ("Told by", told_by(listed).to_owned()),
        ("Revision", listed.revision.to_string()),
        ("Size", bytes(size)),
        ("Represents", represented_reports(listed.weight)),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// Returns the number of reports that a sampled report represents; empty for others.
fn represented_reports(weight: u32) -> String {
    if weight > 1 { counted(weight, "report", "reports") } else { String::new() }
}

/// Describes who tells of the crash of a report.
pub fn told_by(listed: &ReportRow) -> &'static str {
    match listed.told_by.as_deref().and_then(CrashTeller::parse) {
        Some(CrashTeller::Corpse) => "an extension after the crash",
        Some(CrashTeller::Handler) => "the app's crash handler",
        Some(CrashTeller::Log) => "a crash log of the system",
        Some(CrashTeller::MetricKit) => "MetricKit",
        None => "",
    }
}
