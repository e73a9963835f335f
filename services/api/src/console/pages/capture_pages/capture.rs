//! `/console/captures/{id}`: what one capture says.

use super::CaptureLine;
use super::analysis::ShownAnalysis;
use crate::console::assets::FLAME_PATH;
use crate::console::session::SignedIn;
use crate::console::shell::{Shell, html_answer};
use crate::http::problem::Problem;
use crate::limits::answers::ReservedAnswer;
use crate::operations::captures::{CaptureEntry, FoundAnalysis, analysis, delete_capture};
use crate::requests::access::{ReportsRead, TenantAdmin};
use crate::requests::input::Path;
use crate::state::Api;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use unslide_model::Scope;
use unslide_signals::calltree::CallTree;
use unslide_signals::capture::CaptureAnalysis;

/// Bytes of what is made of an analysis besides its trees, for each byte of its JSON.
const READ_BYTES: u64 = 4;

#[derive(Template)]
#[template(path = "console/capture.html")]
struct CapturePage {
    shell: Shell,
    script: &'static str,
    capture: CaptureLine,
    shown: Option<ShownAnalysis>,
    may_delete: bool,
}

/// `GET /console/captures/{id}`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, api.clock.now());
    let FoundAnalysis { capture, json, mut reservation } = analysis(&api, access, &id).await?;
    let may_delete = access.principal.may(Scope::TenantAdmin);
    let viewer = signed.viewer;
    let work = move || {
        let line = CaptureLine::of(&CaptureEntry::from(capture), now);
        let title = format!("{} of {}", line.kind, line.app);
        let shown = if json.is_empty() {
            None
        } else {
            reservation.grow(json.len() as u64 * READ_BYTES)?;
            let analysis: CaptureAnalysis = serde_json::from_slice(&json).map_err(Problem::internal)?;
            // The tree, and that of the app's functions.
            reservation.grow(CallTree::most_bytes(2 * analysis.tree.nodes.len()))?;
            Some(ShownAnalysis::of(&analysis, &title))
        };
        reservation.grow(shown.as_ref().map_or(0, |shown| shown.graph.len() as u64 * 2))?;
        let page = CapturePage {
            shell: Shell::of(viewer, "captures", title),
            script: &FLAME_PATH,
            capture: line,
            shown,
            may_delete,
        };
        let bytes = page.render().map_err(Problem::internal)?.into_bytes().into();
        Ok::<_, Problem>(ReservedAnswer { bytes, reservation })
    };
    let answer = api.cpu.run_for(access.tenant(), work).await??;
    Ok(html_answer(answer))
}

/// `POST /console/captures/{id}/delete`.
pub async fn delete(
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    id: Path<String>,
) -> Result<Response, Problem> {
    delete_capture(State(api), signed.access, id).await?;
    Ok(Redirect::to("/console/captures").into_response())
}
