//! `/console/person-erasures`: requests erasures of persons, and shows what was erased.

use crate::operations::create::{RequestedErasure, request_erasure};
use crate::operations::list::list_person_erasures;
use crate::store::{NewPersonErasure, PersonErasure};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Api, Kind, PageQuery, Problem, Query, TenantAdmin};
use unslide_site::{PageState, SentForm, Shell, SignedIn, Template, counted, escaping, filters, render_html};
use unslide_store::erasure_requests::ErasureState;
use unslide_store::persons::PersonKind;

/// The path of the page.
pub const PATH: &str = "/console/person-erasures";

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(PATH, get(show_erasures).post(begin_erasure))
}

#[derive(Template)]
#[template(path = "person-erasure/erasures.html", askama = escaping)]
struct ErasuresPage {
    shell: Shell,
    erasures: Vec<PersonErasure>,
    next: Option<String>,
    counted: Option<CountedPerson>,
}

/// A person of a form, with what an erasure would remove.
struct CountedPerson {
    kind: PersonKind,
    id: String,
    would_remove: String,
}

impl ErasuresPage {
    fn is_counted(&self, kind: PersonKind) -> bool {
        self.counted.as_ref().is_some_and(|counted| counted.kind == kind)
    }
}

fn state_mark(erasure: &PersonErasure) -> (&'static str, &'static str, &'static str) {
    match erasure.state {
        ErasureState::Searching => ("warn", "◐", "searching"),
        ErasureState::SearchingAgain => ("warn", "◐", "searching again"),
        ErasureState::Done => ("good", "●", "done"),
        ErasureState::Failed => ("bad", "○", "failed"),
    }
}

/// Returns numbers of rows by table as text.
fn describe_rows<'r>(rows: impl Iterator<Item = (&'r str, u64)>) -> String {
    let words = |table: &str| match table {
        "reports" => ("report", "reports"),
        "sessions" => ("session", "sessions"),
        "metric_payloads" => ("metric payload", "metric payloads"),
        "memory_exceptions" => ("memory exception", "memory exceptions"),
        "captures" => ("capture", "captures"),
        _ => ("other row", "other rows"),
    };
    let counts = rows.map(|(table, rows)| {
        let (one, many) = words(table);
        counted(rows, one, many)
    });
    let counts: Vec<String> = counts.collect();
    if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") }
}

fn describe_removed(erasure: &PersonErasure) -> String {
    describe_rows(erasure.removed.iter().map(|(table, rows)| (table.as_str(), *rows)))
}

/// `GET /console/person-erasures`: the form, and the erasures so far.
async fn show_erasures(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    render_page(storage, signed, &state, None).await
}

async fn render_page(
    storage: Arc<Storage>,
    signed: SignedIn<TenantAdmin>,
    state: &PageState,
    counted: Option<CountedPerson>,
) -> Result<Response, Problem> {
    let query = PageQuery { limit: None, cursor: state.get_text("cursor") };
    let Json(found) = list_person_erasures(State(storage), signed.access, Query(query)).await?;
    render_html(&ErasuresPage {
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "Erasure"),
        erasures: found.items,
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &[], &cursor)),
        counted,
    })
}

/// `POST /console/person-erasures`: requests an erasure, or counts what it would remove. To erase, the box has to be ticked.
async fn begin_erasure(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let is_count = form.has_field("count");
    if !is_count && !form.has_field("sure") {
        return Err(Problem::new(Kind::InvalidBody, "sure: tick the box to erase the person's data"));
    }
    let kind = PersonKind::parse(&form.field_text("kind"))
        .ok_or_else(|| Problem::new(Kind::InvalidBody, "kind: user, installation or session"))?;
    let new = NewPersonErasure { kind, id: form.field_text("id"), dry_run: is_count };
    let id = new.id.clone();
    match request_erasure(&storage, &signed.access, new).await? {
        RequestedErasure::Begun(_) => Ok(Redirect::to(PATH).into_response()),
        RequestedErasure::Counted(count) => {
            let rows = describe_rows(count.would_remove.iter().map(|(table, rows)| (*table, *rows)));
            let would_remove = if count.complete { rows } else { format!("at least {rows}") };
            let counted = Some(CountedPerson { kind, id, would_remove });
            render_page(storage, signed, &PageState::default(), counted).await
        }
    }
}
