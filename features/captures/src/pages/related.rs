//! Links from other pages to those of captures.

use super::{capture_path, kind};
use crate::capture::CaptureKind;
use crate::store::{self, CaptureId};
use unslide_api::feature::panels::{PanelLink, PanelSection, PanelSlot, SearchedId};
use unslide_store::queries::reports::ReportRow;
use unslide_store::{HookFuture, Result, TenantTx};

/// Types of reports that a graph of memory or a log of allocations may come with.
const ABOUT_MEMORY: [&str; 2] = ["memory_warning", "out_of_memory"];
/// Captures of a run that a report's page lists.
const RELATED_LIMIT: u32 = 20;

/// Shows the captures of a report's run on its page, and finds the capture with an id.
pub fn show_panel<'t>(tx: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    Box::pin(async move {
        let section = match slot {
            PanelSlot::Report(report) => find_related(tx, report).await?,
            PanelSlot::SearchedId(searched) => find_capture(tx, searched).await?,
            _ => None,
        };
        Ok(section.into_iter().collect())
    })
}

async fn find_capture(tx: &mut TenantTx, searched: SearchedId<'_>) -> Result<Option<PanelSection>> {
    let found = store::get(tx, CaptureId::from_uuid(searched.id), searched.app).await?;
    Ok(found.map(|capture| {
        let link = PanelLink {
            kind: "capture",
            text: kind(capture.kind).to_owned(),
            path: capture_path(capture.id),
            app: capture.app,
            version: capture.version,
            received_at: None,
        };
        PanelSection { links: vec![link], ..PanelSection::default() }
    }))
}

/// Finds the captures of the run that a report about memory is of.
async fn find_related(tx: &mut TenantTx, report: &ReportRow) -> Result<Option<PanelSection>> {
    if !ABOUT_MEMORY.contains(&report.kind.as_str()) {
        return Ok(None);
    }
    let captures = store::for_run(tx, report, RELATED_LIMIT).await?;
    let links: Vec<PanelLink> = captures
        .into_iter()
        .map(|capture| PanelLink {
            path: capture_path(capture.id),
            text: CaptureKind::parse(&capture.kind).map_or("Capture", kind).to_owned(),
            received_at: Some(capture.received_at),
            ..PanelLink::default()
        })
        .collect();
    let section = PanelSection {
        heading: "Captures of this run",
        hint: Some("What the app recorded in the same run: it may show what the memory is used for."),
        links,
        ..PanelSection::default()
    };
    Ok((!section.links.is_empty()).then_some(section))
}
