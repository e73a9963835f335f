//! `/console/sessions/{id}`: what one session of an app sent, in the order of time.

use crate::console::components::rows::report_path;
use crate::console::link::segment;
use crate::console::prelude::*;
use crate::operations::sessions::get::{SessionQuery, get_session};
use time::OffsetDateTime;
use unslide_store::queries::session::{SessionEventKind, TimelineEvent};
use unslide_store::sessions::SessionJudgement;

#[derive(Template)]
#[template(path = "console/pages/report_pages/session.html", askama = escaping)]
struct SessionPage {
    shell: Shell,
    id: String,
    app: String,
    events: Vec<TimelineLine>,
    next: Option<String>,
}

struct TimelineLine {
    at: When,
    what: String,
    /// The title of a report's group, or why an end is thought to be one; empty where there is neither.
    title: String,
    version: String,
    /// The page of a report or a capture.
    href: Option<String>,
}

/// `GET /console/sessions/{id}`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let now = api.clock.now();
    let query = SessionQuery { app: state.text("app"), limit: None, cursor: state.text("cursor") };
    let Json(found) = get_session(State(api), signed.access, Path(id.clone()), Query(query)).await?;
    let path = format!("/console/sessions/{}", segment(&id));
    html(&SessionPage {
        shell: Shell::of(signed.viewer, "reports", "Session"),
        id: shown(&id),
        app: shown(&state.text("app").unwrap_or_default()),
        events: found.items.iter().map(|event| line(event, now)).collect(),
        next: found.next_cursor.map(|cursor| state.at_cursor(&path, &["app"], &cursor)),
    })
}

fn line(event: &TimelineEvent, now: OffsetDateTime) -> TimelineLine {
    let detail = event.detail.as_deref().unwrap_or_default();
    let what = match event.kind {
        SessionEventKind::Started => "The session began".to_owned(),
        SessionEventKind::Ended if detail.is_empty() => "The session ended".to_owned(),
        SessionEventKind::Ended => format!("The session ended: {}", detail.replace('_', " ")),
        SessionEventKind::Report if detail.is_empty() => "A report".to_owned(),
        SessionEventKind::Report => format!("A report: {}", shown(detail)),
        SessionEventKind::Metrics => format!("Metrics {}", shown(&event.id)),
        SessionEventKind::Capture => format!("A capture: {}", shown(&detail.replace('_', " "))),
    };
    let why = event.judgement.as_ref().map(why);
    TimelineLine {
        at: words::when(event.at, now),
        what,
        title: shown(event.title.as_deref().or(why.as_deref()).unwrap_or_default()),
        version: shown(&event.version),
        href: match event.kind {
            SessionEventKind::Report => Some(report_path(&event.id, event.variant, "")),
            SessionEventKind::Capture => Some(format!("/console/captures/{}", event.id)),
            SessionEventKind::Started | SessionEventKind::Ended | SessionEventKind::Metrics => None,
        },
    }
}

/// Such as `Rule: exclusion. Confidence: medium. For it: learned limit, 92 % of 2048 MiB.`
fn why(judgement: &SessionJudgement) -> String {
    let words = |word: &str| word.replace('_', " ");
    let mut text = format!("Rule: {}. Confidence: {}.", words(judgement.rule.as_str()), judgement.confidence);
    for evidence in &judgement.evidence {
        text.push_str(&format!(" For it: {}, {}.", words(evidence.kind.as_str()), evidence.value));
    }
    if let Some(against) = &judgement.against {
        text.push_str(&format!(" Against it: {}, {}.", words(against.kind.as_str()), against.value));
    }
    text
}
