//! The words of testers on the pages of reports and groups.

use crate::store::{self, ReportSubmission};
use unslide_api::feature::panels::{PanelFigure, PanelLink, PanelSection, PanelSlot, PanelVerdict};
use unslide_store::{HookFuture, TenantTx};

/// Submissions that the page of a report shows.
const REPORT_LIMIT: u32 = 5;
/// Words that the page of a group shows.
const GROUP_LIMIT: u32 = 10;
/// Characters of a tester's words on the page of a group.
const GROUP_CHARS: usize = 300;

/// Shows where a report came from and what its tester wrote, and what testers wrote about reports of a group.
pub fn show_panel<'t>(tx: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    Box::pin(async move {
        match slot {
            PanelSlot::Report(report) => {
                let submissions = store::list_for_report(tx, report.report_id, REPORT_LIMIT).await?;
                Ok(submissions.into_iter().map(describe_submission).collect())
            }
            PanelSlot::Group(group) => {
                let comments = store::list_for_group(tx, group.id, GROUP_LIMIT).await?;
                let links = comments.into_iter().map(|one| PanelLink {
                    path: format!("/console/reports/{}", one.report),
                    text: shorten(&one.comment),
                    received_at: one.submitted_at,
                    ..PanelLink::default()
                });
                let section = PanelSection {
                    heading: "Words of testers",
                    hint: Some(
                        "What testers wrote in TestFlight about crashes of this group, the newest first.",
                    ),
                    links: links.collect(),
                    ..PanelSection::default()
                };
                Ok((!section.links.is_empty()).then_some(section).into_iter().collect())
            }
            _ => Ok(Vec::new()),
        }
    })
}

fn describe_submission(one: ReportSubmission) -> PanelSection {
    let submission = PanelFigure {
        label: "Submission",
        value: one.submission,
        title: "Apple's id of what the tester sent",
        note: one.submitted_at.map(|at| format!("{} (UTC)", at.date())).unwrap_or_default(),
    };
    let hint = match one.comment {
        Some(_) => "A tester sent this crash with TestFlight, and wrote:",
        None => "A tester sent this crash with TestFlight, without words.",
    };
    PanelSection {
        heading: "TestFlight",
        hint: Some(hint),
        verdict: one.comment.map(|text| PanelVerdict { class: "", text }),
        figures: vec![submission],
        ..PanelSection::default()
    }
}

fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(GROUP_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
