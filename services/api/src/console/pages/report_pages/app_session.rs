//! `/console/sessions/{id}`: what one session of an app sent, in the order of time.

use crate::console::bar::PageState;
use crate::console::components::rows::report_path;
use crate::console::link::segment;
use crate::console::session::SignedIn;
use crate::console::shell::{Shell, html};
use crate::console::words::{When, shown};
use crate::http::problem::Problem;
use crate::operations::sessions::get::{SessionQuery, get_session};
use crate::requests::access::ReportsRead;
use crate::requests::input::{Path, Query};
use crate::state::Api;
use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use time::OffsetDateTime;
use unslide_store::queries::session::{SessionEventKind, TimelineEvent};

#[derive(Template)]
#[template(path = "console/session.html")]
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
    /// The title of a report's group; empty where there is none.
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
    TimelineLine {
        at: When::of(event.at, now),
        what,
        title: shown(event.title.as_deref().unwrap_or_default()),
        version: shown(&event.version),
        href: match event.kind {
            SessionEventKind::Report => Some(report_path(&event.id, event.variant, "")),
            SessionEventKind::Capture => Some(format!("/console/captures/{}", event.id)),
            SessionEventKind::Started | SessionEventKind::Ended | SessionEventKind::Metrics => None,
        },
    }
}
