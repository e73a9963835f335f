//! `/console/captures/{id}`: one capture with its analysis.

use super::analysis::{self, ShownAnalysis};
use super::kind;
use super::prelude::*;
use crate::operations::{self, FoundAnalysis, delete_capture};
use crate::pages::history::Moments;
use crate::store::{self, Capture};
use unslide_api::feature::operation::TenantAdmin;
use unslide_model::Scope;
use unslide_site::{session_path, text_or};

/// Earlier captures that this one can be compared with.
const MOST_EARLIER: u32 = 5;

#[derive(Template)]
#[template(path = "captures/capture.html", askama = escaping)]
struct CapturePage {
    shell: Shell,
    script: &'static str,
    capture: Capture,
    shown: Option<ShownAnalysis>,
    /// Captures that this one can be compared with.
    earlier: Vec<Capture>,
    may_delete: bool,
}

pub async fn page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let moments = Moments { from: state.parse_number("from")?, to: state.parse_number("to")? };
    let access = &signed.access;
    let found = operations::analysis(&storage, access, "id", &id).await?;
    let has_analysis = !found.json.is_empty();
    let earlier = if has_analysis {
        let mut tx = storage.tenant(access.tenant()).await?;
        let earlier = store::earlier(&mut tx, &found.capture, MOST_EARLIER).await?;
        tx.rollback();
        earlier
    } else {
        Vec::new()
    };
    let may_delete = access.principal.has_scope(Scope::TenantAdmin);
    let viewer = signed.viewer;
    let work = move || {
        let mut found = found;
        // The tree, and that of the app's functions.
        let read = if has_analysis { Some(found.read(2)?) } else { None };
        let FoundAnalysis { capture, mut reservation, .. } = found;
        let title = format!("{} of {}", kind(capture.kind), text_or(&capture.app, "no app"));
        let shown = read.map(|analysis| ShownAnalysis::from_analysis(&analysis, &title, moments));
        reservation.reserve_more(shown.as_ref().map_or(0, |shown| shown.graph_bytes() * 2))?;
        let page = CapturePage {
            shell: Shell::for_viewer(viewer, "captures", title),
            script: &FLAME_PATH,
            capture,
            shown,
            earlier,
            may_delete,
        };
        let bytes = page.render().map_err(Problem::internal)?.into_bytes().into();
        Ok::<_, Problem>(ReservedAnswer { bytes, reservation })
    };
    let answer = storage.capacity.cpu.run_for(access.tenant(), work).await??;
    Ok(html_answer(answer))
}

pub async fn delete(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    id: Path<String>,
) -> Result<Response, Problem> {
    delete_capture(State(storage), signed.access, id).await?;
    Ok(Redirect::to("/console/captures").into_response())
}
