//! `/console/dead-letters`: records that a stage could not process, the reasons, and their replay.

use crate::prelude::*;
use axum::Extension;
use unslide_api::feature::operation::JsonBody;
use unslide_api::feature::operation::TenantAdmin;
use unslide_api::feature::site::{DeadLetterQuery, list_dead_letters};
use unslide_api::feature::site::{ReplayWish, replay_dead_letter};
use unslide_proto::trace::TraceContext;
use unslide_site::{BarSelect, FilterBar};
use unslide_store::dead_letters::{DeadLetter, DeadLetterStage, DeadLetterStatus};

const DEAD_LETTERS_PAGE: &str = "/console/dead-letters";

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/dead_letters.html", askama = escaping)]
struct DeadLettersPage {
    shell: Shell,
    letters: Vec<DeadLetter>,
    next: Option<String>,
    filtered: bool,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let query = DeadLetterQuery {
        stage: state.get("stage").and_then(DeadLetterStage::parse),
        reason: state.get_text("reason"),
        status: state.get("status").and_then(DeadLetterStatus::parse),
        cursor: state.get_text("cursor"),
        ..DeadLetterQuery::default()
    };
    let Json(found) = list_dead_letters(State(storage), signed.access, Query(query)).await?;
    let stages = [("", "all"), ("symbolize", "symbolize"), ("read", "read"), ("store", "store")];
    let statuses = [
        ("", "all"),
        ("waiting", "not replayed"),
        ("requested", "requested"),
        ("replayed", "replayed"),
        ("failed", "failed again"),
        ("past_retention", "past retention"),
    ];
    let selected = ["stage", "status"].map(|name| (name, state.get(name)));
    let chip = state
        .get("reason")
        .map(|reason| (format!("reason {reason}"), build_link(DEAD_LETTERS_PAGE, &selected)));
    let bar = FilterBar {
        action: DEAD_LETTERS_PAGE.to_owned(),
        selects: vec![
            BarSelect::from_words("stage", "Stage", &stages, &state),
            BarSelect::from_words("status", "Replay", &statuses, &state),
        ],
        chips: chip.into_iter().collect(),
        hidden: state.get_text("reason").map(|reason| ("reason", reason)).into_iter().collect(),
        ..FilterBar::default()
    };
    render_html(&DeadLettersPage {
        shell: Shell::for_viewer(signed.viewer, "dead-letters", "Dead letters").with_bar(bar),
        letters: found.items,
        next: found
            .next_cursor
            .map(|cursor| state.at_cursor(DEAD_LETTERS_PAGE, &["stage", "status", "reason"], &cursor)),
        filtered: ["stage", "status", "reason"].iter().any(|name| state.get(name).is_some()),
    })
}

/// Returns true if the page offers a replay.
pub(super) fn can_replay(letter: &DeadLetter) -> bool {
    matches!(letter.status, DeadLetterStatus::Waiting | DeadLetterStatus::Failed)
}

/// Returns the address of the dead letters with the same reason.
fn same_reason(letter: &DeadLetter) -> String {
    build_link(DEAD_LETTERS_PAGE, &[("reason", Some(&letter.reason))])
}

pub async fn replay_from_form(
    State(broker): State<Arc<Broker>>,
    signed: SignedIn<TenantAdmin>,
    trace: Extension<TraceContext>,
    id: Path<String>,
) -> Result<Response, Problem> {
    let wish = ReplayWish { again: false };
    let Json(_) = replay_dead_letter(State(broker), signed.access, trace, id, JsonBody(wish)).await?;
    Ok(Redirect::to(DEAD_LETTERS_PAGE).into_response())
}
