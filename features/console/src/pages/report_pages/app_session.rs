//! `/console/sessions/{id}`: the events of one session of an app, in order of time.

use crate::components::rows::{kind_word, report_path};
use crate::prelude::*;
use unslide_api::feature::site::{SessionQuery, get_session};
use unslide_site::encode_segment;
use unslide_store::queries::session::{REPORT_KIND, SessionJudgement, TimelineEvent};

#[derive(Template)]
#[template(path = "console/pages/report_pages/session.html", askama = escaping)]
struct SessionPage {
    shell: Shell,
    id: String,
    app: String,
    events: Vec<TimelineEvent>,
    next: Option<String>,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let query = SessionQuery { app: state.get_text("app"), limit: None, cursor: state.get_text("cursor") };
    let Json(found) = get_session(State(storage), signed.access, Path(id.clone()), Query(query)).await?;
    let path = format!("/console/sessions/{}", encode_segment(&id));
    render_html(&SessionPage {
        shell: Shell::for_viewer(signed.viewer, "reports", "Session").with_about(id.as_str()),
        app: state.get_text("app").unwrap_or_default(),
        events: found.items,
        next: found.next_cursor.map(|cursor| state.at_cursor(&path, &["app"], &cursor)),
        id,
    })
}

fn what(event: &TimelineEvent) -> String {
    let detail = event.detail.as_deref().unwrap_or_default();
    if let Some(shown) = &event.shown {
        return shown.text.clone();
    }
    match &*event.kind {
        REPORT_KIND if detail.is_empty() => "A report".to_owned(),
        REPORT_KIND => format!("A report: {}", kind_word(detail)),
        kind => kind.replace('_', " "),
    }
}

/// Returns the path of the page of a report, or of a feature's entry.
fn href(event: &TimelineEvent) -> Option<String> {
    if event.kind == REPORT_KIND {
        return Some(report_path(&event.id, event.variant, ""));
    }
    event.shown.as_ref().and_then(|shown| shown.path.clone())
}

/// Returns the title of a report's group, the reason for the judgement of an end, or the second line of a feature's
/// event; empty if there is none of them.
fn title(event: &TimelineEvent) -> String {
    let shown = || event.shown.as_ref().map(|shown| shown.detail.clone());
    let judgement = || event.judgement.as_ref().map(format_judgement);
    event.title.clone().or_else(judgement).or_else(shown).unwrap_or_default()
}

/// Describes a judgement, such as `Rule: exclusion. Confidence: medium. For it: learned limit, 92 % of 2048
/// MiB.`
fn format_judgement(judgement: &SessionJudgement) -> String {
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
