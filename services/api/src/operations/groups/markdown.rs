//! A group as Markdown: its statistics, and the report that represents it.

use super::findings::{describe_only_device, describe_verdict, load_context};
use super::group_link;
use super::representative::choose_report;
use crate::http::answers::{ReservedAnswer, reserve_bytes};
use crate::operations::prelude::*;
use crate::operations::reports::load::load_report;
use crate::reports::source_lines::source_lines_for_page;
use crate::reports::sources::SourceScope;
use crate::reports::stored_body::{self, StoredBody};
use axum::response::Response;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_report::markdown::{MarkdownDocument, MarkdownStyle, quote_text, write_report};
use unslide_report::text::source_lines::SourceLines;
use unslide_store::group_links::DescribedGroup;
use unslide_store::list_group_links;
use unslide_store::queries::groups::context::GroupContext;
use unslide_store::queries::groups::{GroupCounts, ListedGroup};
use unslide_store::queries::reports::{self, ReportFilter, ReportRow};
use unslide_symbolicate::Analysis;

/// The newest reports of which one represents the group.
const CANDIDATES_LIMIT: u32 = 20;
/// The maximum number of values shown of one dimension.
const VALUES_LIMIT: usize = 10;
/// The days over which recent reports are counted.
const RECENT_DAYS: i64 = 7;

/// Returns the group as Markdown.
///
/// # Errors
/// Those of a report's body, except if the report was deleted at this moment.
pub async fn answer_group(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    found: GroupCounts,
    style: MarkdownStyle,
) -> Result<Response, Problem> {
    let mut representative = match Box::pin(load_representative(symbolication, access, &found.group)).await {
        Err(problem) if problem.kind() == Kind::NotFound => None,
        loaded => loaded?,
    };
    let mut lines = SourceLines::default();
    if let Some((row, _, body)) = &mut representative {
        let scope = SourceScope::for_report(access, &row.app);
        lines = Box::pin(source_lines_for_page(symbolication, scope, body, None)).await;
    }
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let context = load_context(symbolication, &mut tx, found.group.id).await?;
    let described = DescribedGroup { id: found.group.id, app: &found.group.app };
    let links = list_group_links(&mut tx, described).await?;
    tx.rollback();
    let now = symbolication.storage.clock.now();
    let link = group_link(&symbolication.public_url, found.group.id);
    let analyses = symbolication.analyses.clone();
    let spare = reserve_bytes(&symbolication.capacity.permits, access.tenant(), 0)?;
    let work = move || {
        let mut out = MarkdownDocument::with_title(&group_heading(&found.group), style);
        push_console_link(link, &mut out);
        for link in &links {
            out.push_link(&link.text, &link.url);
        }
        write_group(&found, now, &mut out);
        write_findings(&analyses, &context, &group_source(&found.group), &mut out);
        let mut reservation = spare;
        if let Some((row, why, body)) = representative {
            let report = stored_body::read_report(&body.json)?;
            out.push_heading("Representative report");
            out.push_paragraph(&format!("The sections below describe report {}: {why}.", row.report_id));
            write_report(&report, &lines, &mut out);
            reservation = body.reservation;
        }
        let text = out.into_text();
        reservation.reserve_more(text.len() as u64)?;
        Ok::<_, Problem>(ReservedAnswer { bytes: text.into(), reservation })
    };
    Ok(symbolication.capacity.cpu.run_for(access.tenant(), work).await??.into_markdown())
}

/// Returns the report that represents the group, the reason for this choice, and its body.
async fn load_representative(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    group: &ListedGroup,
) -> Result<Option<(ReportRow, &'static str, StoredBody)>, Problem> {
    let filter = ReportFilter { group: Some(group.id), ..ReportFilter::default() };
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let mut rows = reports::list_reports(&mut tx, &filter, None, CANDIDATES_LIMIT).await?;
    tx.rollback();
    rows.reports.retain(|row| !row.body_dropped);
    let newest: Vec<_> =
        rows.reports.iter().map(|row| (row.is_complete(), row.frames.own_symbolicated)).collect();
    let chosen = choose_report(&newest).and_then(|(at, why)| Some((rows.reports.get(at)?, why)));
    let Some((row, why)) = chosen else { return Ok(None) };
    let (_, body) = load_report(symbolication, access, &row.report_id.to_string(), row.variant).await?;
    Ok(Some((row.clone(), why, body)))
}

/// Returns the heading of a group: its short id and its title.
pub fn group_heading(group: &ListedGroup) -> String {
    format!("{}: {}", group.shown_id(), quote_text(&group.title))
}

/// Returns the address of a page of the console, if the address of the console is known.
pub fn page_link(symbolication: &Symbolication, path: &str) -> Option<String> {
    let base = &symbolication.public_url;
    (!base.is_empty()).then(|| format!("{base}{path}"))
}

pub fn push_console_link(link: Option<String>, out: &mut MarkdownDocument) {
    if let Some(link) = link {
        out.push_link("Open in the console", &link);
    }
}

fn group_source(group: &ListedGroup) -> String {
    format!("group {}", group.shown_id())
}

fn count(number: i64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Writes the bug, its state and its statistics.
pub fn write_group(found: &GroupCounts, now: OffsetDateTime, out: &mut MarkdownDocument) {
    let group = &found.group;
    let source = group_source(group);
    out.push_heading("Group");
    out.push_paragraph("The bug and its state:\n");
    out.push_item(&format!("Title: {}", quote_text(&group.title)), &source);
    out.push_item(&format!("Group: {}", group.shown_id()), &source);
    if !group.culprit.is_empty() {
        out.push_item(&format!("Culprit: {}", quote_text(&group.culprit)), &source);
    }
    out.push_item(&format!("Kind: {}", quote_text(&group.kind)), &source);
    out.push_item(&format!("App: {}", quote_text(&group.app)), &source);
    out.push_item(&format!("State: {}", describe_state(group)), &source);
    if group.provisional {
        out.push_item("Symbols are missing. With them the reports may move to other groups.", &source);
    }
    write_statistics(found, now, out);
}

fn describe_state(group: &ListedGroup) -> String {
    let mut state = group.status.as_str().to_owned();
    if let Some(version) = &group.resolved_in {
        state += &format!(", resolved in version {}", quote_text(version));
    }
    if let Some(version) = &group.regressed_in {
        state += &format!(", regressed in version {}", quote_text(version));
    }
    match &group.assignee {
        Some(assignee) => state + &format!(", assigned to {}", quote_text(assignee)),
        None => state + ", not assigned",
    }
}

fn write_statistics(found: &GroupCounts, now: OffsetDateTime, out: &mut MarkdownDocument) {
    let group = &found.group;
    let source = group_source(group);
    out.push_heading("Statistics");
    out.push_paragraph("Of the group's reports:\n");
    let about = if group.estimated { "about " } else { "" };
    out.push_item(
        &format!(
            "{about}{} from {}",
            count(group.reports, "report"),
            count(group.affected_devices, "device")
        ),
        &source,
    );
    let from = now.date() - time::Duration::days(RECENT_DAYS - 1);
    let recent: i64 = found.days.iter().filter(|day| day.day >= from).map(|day| day.reports).sum();
    out.push_item(&format!("{about}{} in the last {RECENT_DAYS} days", count(recent, "report")), &source);
    let seen = |at: OffsetDateTime, version: &str| {
        let at = at.format(&Rfc3339).unwrap_or_default();
        format!("{at}, version {}", quote_text(version))
    };
    out.push_item(&format!("First seen: {}", seen(group.first_seen, &group.first_version)), &source);
    out.push_item(&format!("Last seen: {}", seen(group.last_seen, &group.last_version)), &source);
    let versions: Vec<_> = found.versions.iter().map(|one| (one.version.as_str(), one.reports)).collect();
    let devices: Vec<_> = found.devices.iter().map(|one| (one.model.as_str(), one.reports)).collect();
    let systems: Vec<_> =
        found.os_versions.iter().map(|one| (one.os_version.as_str(), one.reports)).collect();
    for (name, values) in [("Versions", versions), ("Devices", devices), ("Systems", systems)] {
        push_values(name, &values, &source, out);
    }
    if !found.merged.is_empty() {
        out.push_item(&format!("{} groups are merged into it", found.merged.len()), &source);
    }
}

/// Writes what analyses found in the newest reports.
fn write_findings(analyses: &[Analysis], context: &GroupContext, source: &str, out: &mut MarkdownDocument) {
    for share in context.verdicts.iter().take(VALUES_LIMIT) {
        let subject = share.subject.as_deref().map(quote_text);
        let line = describe_verdict(analyses, share, subject.as_deref(), context.sample);
        out.push_item(&format!("In the newest reports: {line}"), source);
    }
    if let Some(note) = describe_only_device(analyses, context) {
        out.push_item(&note, source);
    }
}

/// Writes the most frequent values of a dimension on one line, with their reports.
fn push_values(name: &str, values: &[(&str, i64)], source: &str, out: &mut MarkdownDocument) {
    if values.is_empty() {
        return;
    }
    let shown = values.iter().take(VALUES_LIMIT).map(|(value, reports)| {
        let value = if value.is_empty() { "unknown".to_owned() } else { quote_text(value) };
        format!("{value} {reports}")
    });
    let mut line = format!("{name}, with their reports: {}", shown.collect::<Vec<_>>().join(", "));
    if values.len() > VALUES_LIMIT {
        line += &format!("; {} more are left out", values.len() - VALUES_LIMIT);
    }
    out.push_item(&line, source);
}
