//! `/console/captures`: the captures, newest first.

use super::CAPTURES_PATH as PATH;
use super::prelude::*;
use crate::capture::CaptureKind;
use crate::operations::{CaptureQuery, list_captures};
use crate::store::Capture;
use unslide_model::Scope;
use unslide_site::{BarSelect, FilterBar, app_select};

const FILTERS: [&str; 2] = ["app", "kind"];

#[derive(Template)]
#[template(path = "captures/captures.html", askama = escaping)]
struct CapturesPage {
    shell: Shell,
    may_upload: bool,
    /// The app that a form names at first.
    app: String,
    captures: Vec<Capture>,
    next: Option<String>,
    filtered: bool,
}

pub async fn page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let query = CaptureQuery {
        app: state.get_text("app"),
        kind: state.get("kind").map(kind).transpose()?,
        cursor: state.get_text("cursor"),
        ..CaptureQuery::default()
    };
    let Json(found) = list_captures(State(storage.clone()), access.clone(), Query(query)).await?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let app = app_select(&mut tx, access, &state).await?;
    tx.rollback();
    let mut kinds = vec![("", "all")];
    kinds.extend(CaptureKind::ALL.map(|kind| (kind.as_str(), super::kind(kind))));
    let bar = FilterBar {
        action: PATH.to_owned(),
        selects: vec![app, BarSelect::from_words("kind", "Kind", &kinds, &state)],
        ..FilterBar::default()
    };
    render_html(&CapturesPage {
        may_upload: access.principal.has_scope(Scope::ReportsWrite),
        app: access.only_app().or(state.get("app")).unwrap_or_default().to_owned(),
        shell: Shell::for_viewer(signed.viewer, "captures", "Captures").with_bar(bar),
        captures: found.items,
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &FILTERS, &cursor)),
        filtered: FILTERS.iter().any(|name| state.get(name).is_some()),
    })
}

fn kind(word: &str) -> Result<CaptureKind, Problem> {
    CaptureKind::parse(word).ok_or_else(|| {
        Problem::new(Kind::InvalidParameter, "kind: profile, stack_set, memory_graph or malloc_log")
    })
}
