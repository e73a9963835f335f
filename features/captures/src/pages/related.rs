//! Links from other pages to those of captures.

use super::{capture_path, kind};
use crate::capture::CaptureKind;
use crate::store;
use unslide_api::feature::{FoundPage, RelatedLink, RelatedSection};
use unslide_store::queries::reports::ReportRow;
use unslide_store::{HookFuture, TenantTx, Uuid};

/// Types of reports that a graph of memory or a log of allocations may come with.
const ABOUT_MEMORY: [&str; 2] = ["memory_warning", "out_of_memory"];
/// Captures of a run that a report's page lists.
const RELATED_LIMIT: u32 = 20;

/// Finds the page of the capture with an id.
pub fn find_page<'t>(
    tx: &'t mut TenantTx,
    id: Uuid,
    app: Option<&'t str>,
) -> HookFuture<'t, Option<FoundPage>> {
    Box::pin(async move {
        let found = store::get(tx, id, app).await?;
        Ok(found.map(|capture| FoundPage {
            kind: "capture",
            title: kind(capture.kind).to_owned(),
            path: capture_path(capture.id),
            app: capture.app,
            version: capture.version,
        }))
    })
}

/// Finds the captures of the run that a report about memory is of.
pub fn find_related<'t>(
    tx: &'t mut TenantTx,
    report: &'t ReportRow,
) -> HookFuture<'t, Option<RelatedSection>> {
    Box::pin(async move {
        if !ABOUT_MEMORY.contains(&report.kind.as_str()) {
            return Ok(None);
        }
        let captures = store::for_run(tx, report, RELATED_LIMIT).await?;
        let links: Vec<RelatedLink> = captures
            .into_iter()
            .map(|capture| RelatedLink {
                path: capture_path(capture.id),
                text: CaptureKind::parse(&capture.kind).map_or("Capture", kind).to_owned(),
                received_at: capture.received_at,
            })
            .collect();
        let section = RelatedSection {
            heading: "Captures of this run",
            hint: "What the app recorded in the same run: it may show what the memory is used for.",
            links,
        };
        Ok((!section.links.is_empty()).then_some(section))
    })
}
