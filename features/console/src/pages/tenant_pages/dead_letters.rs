//! `/console/dead-letters`: records that a stage could not process, the reasons, and their replay.

use crate::bar::{BarSelect, FilterBar};
use crate::prelude::*;
use axum::Extension;
use unslide_api::feature::operation::JsonBody;
use unslide_api::feature::operation::TenantAdmin;
use unslide_api::feature::site::{DeadLetterQuery, list_dead_letters};
use unslide_api::feature::site::{ReplayWish, replay_dead_letter};
use unslide_proto::trace::TraceContext;
use unslide_store::dead_letters::{DeadLetter, DeadLetterStage, DeadLetterStatus};

const PATH: &str = "/console/dead-letters";

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/dead_letters.html", askama = escaping)]
struct DeadLettersPage {
    shell: Shell,
    letters: Vec<DeadLetter>,
    next: Option<String>,
    filtered: bool,
}

/// `GET /console/dead-letters`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let query = DeadLetterQuery {
        stage: state.get("stage").and_then(DeadLetterStage::parse),
        reason: state.text("reason"),
        status: state.get("status").and_then(DeadLetterStatus::parse),
        cursor: state.text("cursor"),
        ..DeadLetterQuery::default()
    };
    let Json(found) = list_dead_letters(State(api), signed.access, Query(query)).await?;
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
    let chip = state.get("reason").map(|reason| (format!("reason {reason}"), link(PATH, &selected)));
    let bar = FilterBar {
        action: PATH.to_owned(),
        selects: vec![
            BarSelect::of("stage", "Stage", &stages, &state),
            BarSelect::of("status", "Replay", &statuses, &state),
        ],
        chips: chip.into_iter().collect(),
        hidden: state.text("reason").map(|reason| ("reason", reason)).into_iter().collect(),
        ..FilterBar::default()
    };
    html(&DeadLettersPage {
        shell: Shell::of(signed.viewer, "dead-letters", "Dead letters").with(bar),
        letters: found.items,
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &["stage", "status", "reason"], &cursor)),
        filtered: ["stage", "status", "reason"].iter().any(|name| state.get(name).is_some()),
    })
}

/// Returns true if the page offers a replay.
pub(super) fn can_replay(letter: &DeadLetter) -> bool {
    matches!(letter.status, DeadLetterStatus::Waiting | DeadLetterStatus::Failed)
}

/// Returns the address of the dead letters with the same reason.
fn same_reason(letter: &DeadLetter) -> String {
    link(PATH, &[("reason", Some(&letter.reason))])
}

/// `POST /console/dead-letters/{id}/replay`.
pub async fn replay(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    trace: Extension<TraceContext>,
    id: Path<String>,
) -> Result<Response, Problem> {
    let wish = ReplayWish { again: false };
    let Json(_) = replay_dead_letter(State(api), signed.access, trace, id, JsonBody(wish)).await?;
    Ok(Redirect::to(PATH).into_response())
}
