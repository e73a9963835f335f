//! The text of a ticket: the group, and the report that represents it. People without our scopes read it.

use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::Problem;
use unslide_api::feature::site::{choose_report, group_link, stored_body};
use unslide_model::TenantId;
use unslide_report::markdown::{MarkdownDocument, flatten_text, quote_text, write_report};
use unslide_report::text::source_lines::SourceLines;
use unslide_store::group_links::{DescribedGroup, GroupLink};
use unslide_store::list_group_links;
use unslide_store::queries::groups::ListedGroup;
use unslide_store::queries::report::find_report;
use unslide_store::queries::reports::{ReportFilter, list_reports};

use crate::trackers::TicketDraft;

/// The newest reports of which one represents the group.
const CANDIDATES_LIMIT: u32 = 20;
/// Characters of a title. Jira takes 255.
const TITLE_LIMIT: usize = 240;

/// Returns the title of a group's ticket.
pub fn ticket_title(group: &ListedGroup) -> String {
    let title = flatten_text(&group.title);
    let title = match &group.short_id {
        Some(name) => format!("{name}: {title}"),
        None => title,
    };
    title.chars().take(TITLE_LIMIT).collect()
}

/// Returns the text of a group's ticket, with the report that represents it if it fits.
///
/// # Errors
/// The database or object storage fails.
pub async fn ticket_text(
    symbolication: &Symbolication,
    public_url: &str,
    tenant: &TenantId,
    group: &ListedGroup,
) -> Result<String, Problem> {
    let mut tx = symbolication.storage.tenant(tenant).await?;
    let links = list_group_links(&mut tx, DescribedGroup { id: group.id, app: &group.app }).await?;
    tx.rollback();
    let head = write_group(public_url, group, &links);
    let Some(report) = report_text(symbolication, tenant, group).await? else { return Ok(head) };
    let whole = format!("{head}{report}");
    Ok(if whole.len() <= TicketDraft::TEXT_LIMIT { whole } else { head })
}

/// Returns the comment about a group that came back.
pub fn regression_text(public_url: &str, group: &ListedGroup, version: &str) -> String {
    let mut out = MarkdownDocument::default();
    let version = if version.is_empty() { "(unknown)".to_owned() } else { quote_text(version) };
    let name = group.shown_id();
    out.push_paragraph(&format!(
        "{name} is back: version {version} has it again. {} so far.",
        count_reports(group)
    ));
    if let Some(link) = group_link(public_url, group.id) {
        out.push_link("Open in Unslide", &link);
    }
    out.into_text().trim().to_owned()
}

/// Returns the comment in a ticket that was made while its group got another one.
pub fn orphan_text(group: &ListedGroup, other: Option<&str>) -> String {
    let name = group.shown_id();
    let other = other.map_or_else(|| "another ticket".to_owned(), quote_text);
    format!("Unslide does not follow this ticket: while it was made, {name} was linked to {other}.")
}

fn count_reports(group: &ListedGroup) -> String {
    let count =
        |number: i64, noun: &str| if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") };
    let about = if group.estimated { "About " } else { "" };
    let reports = format!("{about}{}", count(group.reports, "report"));
    match group.affected_devices {
        0 => reports,
        devices => format!("{reports} from {}", count(devices, "device")),
    }
}

fn write_group(public_url: &str, group: &ListedGroup, links: &[GroupLink]) -> String {
    let mut out = MarkdownDocument::default();
    if let Some(link) = group_link(public_url, group.id) {
        out.push_link("Open in Unslide", &link);
    }
    for link in links {
        out.push_link(&link.text, &link.url);
    }
    out.push_paragraph(&format!("{}.", count_reports(group)));
    out.push_paragraph("The bug:\n");
    let version = |text: &str| if text.is_empty() { "(unknown)".to_owned() } else { quote_text(text) };
    out.push_item(&format!("Title: {}", quote_text(&group.title)), "");
    if !group.culprit.is_empty() {
        out.push_item(&format!("Culprit: {}", quote_text(&group.culprit)), "");
    }
    out.push_item(&format!("App: {}", quote_text(&group.app)), "");
    out.push_item(&format!("First version: {}", version(&group.first_version)), "");
    out.push_item(&format!("Last version: {}", version(&group.last_version)), "");
    out.into_text().trim_start().to_owned()
}

/// Returns the report that represents a group as Markdown; None if it has none that can be read now.
async fn report_text(
    symbolication: &Symbolication,
    tenant: &TenantId,
    group: &ListedGroup,
) -> Result<Option<String>, Problem> {
    let filter = ReportFilter { group: Some(group.id), ..ReportFilter::default() };
    let mut tx = symbolication.storage.tenant(tenant).await?;
    let mut rows = list_reports(&mut tx, &filter, None, CANDIDATES_LIMIT).await?;
    rows.reports.retain(|row| !row.body_dropped);
    let newest: Vec<_> =
        rows.reports.iter().map(|row| (row.is_complete(), row.frames.own_symbolicated)).collect();
    let chosen = choose_report(&newest).and_then(|(at, _)| rows.reports.get(at));
    let Some(row) = chosen else { return Ok(None) };
    let Some(found) = find_report(&mut tx, row.report_id, row.variant).await? else { return Ok(None) };
    // A report that is moved or deleted at this moment is left out.
    let Ok(body) = stored_body::read_body(symbolication, tenant, tx, &found).await else { return Ok(None) };
    let work = move || {
        let report = stored_body::read_report(&body.json)?;
        let mut out = MarkdownDocument::default();
        write_report(&report, &SourceLines::default(), &mut out);
        Ok::<_, Problem>(out.into_text())
    };
    Ok(Some(symbolication.capacity.cpu.run_for(tenant, work).await??))
}
