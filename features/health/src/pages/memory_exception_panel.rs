//! The session of a memory exception, on the page of its report.

use crate::store::memory_exceptions::{ExceptionJoin, JoinOutcome, MemoryExceptionId, find_join};
use unslide_api::feature::panels::{PanelLink, PanelSection, PanelVerdict};
use unslide_site::session_path;
use unslide_store::queries::reports::ReportRow;
use unslide_store::{Result, TenantTx};

/// The type of reports that may be memory exceptions.
const KIND: &str = "termination";

/// Finds the session that a memory exception is about. Other reports have no such section.
pub async fn find_exception_panel(tx: &mut TenantTx, report: &ReportRow) -> Result<Vec<PanelSection>> {
    if report.kind != KIND {
        return Ok(Vec::new());
    }
    let id = MemoryExceptionId::from_uuid(report.report_id.uuid());
    Ok(find_join(tx, id, report.variant).await?.map(describe_join).into_iter().collect())
}

fn describe_join(join: ExceptionJoin) -> PanelSection {
    let hint = match join.outcome {
        JoinOutcome::Joined => "The system ended this session for lack of memory.",
        JoinOutcome::None => {
            "No session fits this memory exception: it has not arrived, ended otherwise, or names another version or device model."
        }
        JoinOutcome::Several => {
            "Several sessions fit this memory exception, so that it is joined with none. The process id tells them apart: send it as \
             `pid` of a session."
        }
    };
    let inferred = join.inferred.map(|reason| PanelVerdict {
        class: "",
        text: format!("Inferred before: {}", reason.as_str().replace('_', " ")),
    });
    let link = join.session.map(|(app, session)| PanelLink {
        path: session_path(&app, &session),
        text: format!("Session {session}"),
        app,
        ..PanelLink::default()
    });
    PanelSection {
        heading: "End of its session",
        hint: Some(hint),
        verdict: inferred,
        links: link.into_iter().collect(),
        ..PanelSection::default()
    }
}
