//! A stored report as Markdown, with the statistics of its group.

use crate::http::answers::ReservedAnswer;
use crate::operations::groups::markdown::{group_heading, page_link, push_console_link, write_group};
use crate::operations::groups::reference::load_group;
use crate::operations::prelude::*;
use crate::reports::source_lines::source_lines_for_page;
use crate::reports::sources::SourceScope;
use crate::reports::stored_body::{self, StoredBody};
use axum::response::Response;
use time::format_description::well_known::Rfc3339;
use unslide_report::markdown::{MarkdownDocument, MarkdownStyle, report_heading, write_report};
use unslide_store::queries::report::FoundReport;

/// Returns a report with its group. The group changes without a new revision, so the answer has no `ETag`.
///
/// # Errors
/// A failure of the service, or no bytes are left for the answer.
pub async fn answer_markdown(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    found: FoundReport,
    mut body: StoredBody,
    style: MarkdownStyle,
) -> Result<Response, Problem> {
    let group = match found.listed.group {
        Some(id) => match load_group(&symbolication.storage, access, id).await {
            Err(problem) if problem.kind() == Kind::NotFound => None,
            loaded => Some(loaded?),
        },
        None => None,
    };
    let lines = source_lines_for_page(
        symbolication,
        SourceScope::for_report(access, &found.listed.app),
        &mut body,
        None,
    )
    .await;
    let now = symbolication.storage.clock.now();
    let link = page_link(symbolication, &format!("/console/reports/{}", found.listed.report_id));
    let work = move || {
        let StoredBody { json, mut reservation, .. } = body;
        let report = stored_body::read_report(&json)?;
        let title = match &group {
            Some(found) => group_heading(&found.group),
            None => report_heading(&report),
        };
        let mut out = MarkdownDocument::with_title(&title, style);
        push_console_link(link, &mut out);
        let listed = &found.listed;
        let received = listed.received_at.format(&Rfc3339).unwrap_or_default();
        let about = format!(
            "Report {}, revision {}, received {received}, symbolication {}.",
            report.id, listed.revision, listed.status
        );
        out.push_sentence(&about, &format!("report {}", report.id));
        write_report(&report, &lines, &mut out);
        if let Some(group) = &group {
            write_group(group, now, &mut out);
        }
        let text = out.into_text();
        reservation.reserve_more(text.len() as u64)?;
        Ok::<_, Problem>(ReservedAnswer { bytes: text.into(), reservation })
    };
    Ok(symbolication.capacity.cpu.run_for(access.tenant(), work).await??.into_markdown())
}
