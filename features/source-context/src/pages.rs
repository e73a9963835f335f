//! `/console/sources`: the switch of the tenant; `/console/source-file`: a source file of a source map.

use crate::operations::switch::{SourceSetting, SourceSwitch, get_sources, set_sources};
use crate::source_map::load_source;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Api, JsonBody, Kind, Problem, Query, ReservedAnswer, SymbolsDownload, TenantAdmin, parse_parameter,
};
use unslide_model::DebugId;
use unslide_report::text::escape_line;
use unslide_site::{
    PageState, SentForm, Shell, SignedIn, Template, bytes, escaping, filters, html_answer, render_html,
};

/// The path of the page with the switch.
pub const SOURCES_PATH: &str = "/console/sources";
/// The path of the page of a source file.
pub const FILE_PATH: &str = "/console/source-file";
/// The most bytes of a source file that a page shows.
const MAX_SHOWN_BYTES: usize = 2 << 20;

/// Returns the routes of the pages.
pub fn routes() -> Router<Api> {
    Router::new().route(SOURCES_PATH, get(show_switch).post(change_switch)).route(FILE_PATH, get(show_file))
}

#[derive(Template)]
#[template(path = "source-context/sources.html", askama = escaping)]
struct SourcesPage {
    shell: Shell,
    setting: SourceSetting,
}

async fn show_switch(
    storage: State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
) -> Result<Response, Problem> {
    let Json(setting) = get_sources(storage, signed.access).await?;
    render_html(&SourcesPage { shell: Shell::for_viewer(signed.viewer, crate::NAME, "Sources"), setting })
}

async fn change_switch(
    storage: State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let new = SourceSwitch { enabled: form.has_field("enabled") };
    let _ = set_sources(storage, signed.access, JsonBody(new)).await?;
    Ok(Redirect::to(SOURCES_PATH).into_response())
}

#[derive(Template)]
#[template(path = "source-context/file.html", askama = escaping)]
struct FilePage {
    shell: Shell,
    path: String,
    lines: Vec<FileLine>,
}

struct FileLine {
    number: u64,
    text: String,
    /// True for the line of the frame.
    own: bool,
}

async fn show_file(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<SymbolsDownload>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let debug_id: DebugId = parse_parameter("debug_id", state.get("debug_id").unwrap_or_default())?;
    let path = state.get("path").unwrap_or_default().to_owned();
    let own: Option<u64> = state.parse_number("line")?;
    let ReservedAnswer { bytes, mut reservation } =
        load_source(&storage, &signed.access, debug_id, path.clone()).await?;
    if bytes.len() > MAX_SHOWN_BYTES {
        let detail = format!(
            "the source file has {} bytes, and a page shows {MAX_SHOWN_BYTES}; GET /v1/symbols/{debug_id}/source returns it",
            bytes.len()
        );
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    let viewer = signed.viewer;
    let work = move || {
        let text = String::from_utf8_lossy(&bytes);
        let lines = (1..).zip(text.lines()).map(|(number, line)| FileLine {
            number,
            text: escape_line(&line.replace('\t', "    ")).into_owned(),
            own: own == Some(number),
        });
        let path = escape_line(&path).into_owned();
        let shell = Shell::for_viewer(viewer, "reports", path.clone());
        let page = FilePage { shell, path, lines: lines.collect() };
        let html = page.render().map_err(Problem::internal)?.into_bytes();
        reservation.reserve_more(html.len() as u64)?;
        Ok::<_, Problem>(ReservedAnswer { bytes: html.into(), reservation })
    };
    Ok(html_answer(storage.capacity.cpu.run_for(signed.access.tenant(), work).await??))
}
