//! `/console/dead-letters`: records that could not be processed, why, and another try.

use crate::console::bar::{BarSelect, FilterBar};
use crate::console::prelude::*;
use crate::console::words::bytes;
use crate::operations::dead_letters::DeadLetter;
use crate::operations::dead_letters::list::{DeadLetterQuery, list_dead_letters};
use crate::operations::dead_letters::replay::{ReplayWish, replay_dead_letter};
use crate::requests::access::TenantAdmin;
use crate::requests::input;
use axum::Extension;
use time::OffsetDateTime;
use unslide_proto::trace::TraceContext;

const PATH: &str = "/console/dead-letters";

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/dead_letters.html", askama = escaping)]
struct DeadLettersPage {
    shell: Shell,
    letters: Vec<DeadLetterLine>,
    next: Option<String>,
    filtered: bool,
}

struct DeadLetterLine {
    id: String,
    reason: String,
    same_reason: String,
    detail: String,
    origin: String,
    size: String,
    arrived: When,
    replayed: Option<When>,
    replayed_as: String,
}

/// `GET /console/dead-letters`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let replayed = state.get("status").map(|status| status == "replayed");
    let query = DeadLetterQuery {
        reason: state.text("reason"),
        replayed,
        cursor: state.text("cursor"),
        ..DeadLetterQuery::default()
    };
    let now = api.clock.now();
    let Json(found) = list_dead_letters(State(api), signed.access, Query(query)).await?;
    let choices = [("", "all"), ("waiting", "not replayed"), ("replayed", "replayed")];
    let chip = state
        .get("reason")
        .map(|reason| (format!("reason {}", shown(reason)), link(PATH, &[("status", state.get("status"))])));
    let bar = FilterBar {
        action: PATH.to_owned(),
        selects: vec![BarSelect::of("status", "Replay", &choices, &state)],
        chips: chip.into_iter().collect(),
        hidden: state.text("reason").map(|reason| ("reason", reason)).into_iter().collect(),
        ..FilterBar::default()
    };
    html(&DeadLettersPage {
        shell: Shell::of(signed.viewer, "dead-letters", "Dead letters").with(bar),
        letters: found.items.iter().map(|letter| line(letter, now)).collect(),
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &["status", "reason"], &cursor)),
        filtered: state.get("status").or(state.get("reason")).is_some(),
    })
}

fn line(letter: &DeadLetter, now: OffsetDateTime) -> DeadLetterLine {
    let origin = letter.origin.as_ref().or(letter.source.as_ref());
    DeadLetterLine {
        id: letter.id.clone(),
        reason: shown(&letter.reason),
        same_reason: link(PATH, &[("reason", Some(&letter.reason))]),
        detail: shown(&letter.detail),
        origin: origin
            .map(|origin| shown(&format!("{}/{}/{}", origin.topic, origin.partition, origin.offset)))
            .unwrap_or_default(),
        size: letter.value_bytes.map(bytes).unwrap_or_default(),
        arrived: words::when(letter.arrived_at, now),
        replayed: letter.replayed_at.map(|at| words::when(at, now)),
        replayed_as: shown(letter.replayed_as.as_deref().unwrap_or_default()),
    }
}

/// `POST /console/dead-letters/{id}/replay`.
pub async fn replay(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    trace: Extension<TraceContext>,
    id: Path<String>,
) -> Result<Response, Problem> {
    let wish = ReplayWish { again: false };
    let Json(_) = replay_dead_letter(State(api), signed.access, trace, id, input::Json(wish)).await?;
    Ok(Redirect::to(PATH).into_response())
}
