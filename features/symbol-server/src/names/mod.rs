//! Names of functions for profilers, with a key in the path: the symbolication API of Mozilla's tools, and symbol files of
//! Breakpad.
//!
//! `key` has the kind of keys and finds the key of a request, `store` lists and ends keys, `operations` the API of a tenant's
//! administrators, `symbolicate` and `breakpad` the answers.

pub mod breakpad;
mod key;
pub mod operations;
pub mod store;
mod symbolicate;
mod text;

pub use key::{NAMES_KEYS, NamesKeys};

use crate::layouts::parse_breakpad_id;
use crate::{ServerExtension, SymbolServer};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, RETRY_AFTER,
};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use key::NamesCaller;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use unslide_api::feature::Api;
use unslide_api::feature::Keys;
use unslide_api::feature::Storage;
use unslide_api::feature::Symbolication;
use unslide_api::feature::intake::{Caller, ClientAddress, RequestId, assign_caller};
use unslide_api::feature::operation::SymbolsOfReport;
use unslide_api::problem::{Kind, Problem, Rendered};
use unslide_model::DebugId;
use unslide_store::slots;
use unslide_store::symbols::list_apps;
use unslide_symbolicate::SymbolNeed;

/// Returns the routes with a key in the path.
pub fn routes() -> Router<Api> {
    Router::new()
        .route("/symbols/{key}/symbolicate/v5", post(symbolicate_addresses).options(answer_preflight))
        .route("/symbols/{key}/{name}/{id}/{file}", get(get_breakpad_file).options(answer_preflight))
}

/// A request that a page of another origin sends first. The answer depends on no key.
async fn answer_preflight() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST")),
        (ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("content-type")),
    ];
    allow_origins((StatusCode::NO_CONTENT, headers).into_response())
}

async fn symbolicate_addresses(
    State(keys): State<Arc<Keys>>,
    State(symbolication): State<Arc<Symbolication>>,
    Extension(server): ServerExtension,
    key: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let text = key.map(|Path(text)| text).unwrap_or_default();
    let answer = async {
        let caller = sign_in(&keys, &server, &text, &parts).await?;
        symbolicate::answer_request(&symbolication, &caller, &parts.headers, body).await
    };
    finish_answer(answer.await, &parts)
}

async fn get_breakpad_file(
    State(keys): State<Arc<Keys>>,
    State(symbolication): State<Arc<Symbolication>>,
    Extension(server): ServerExtension,
    path: Result<Path<(String, String, String, String)>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let answer = async {
        let missing = || Problem::new(Kind::NotFound, "there are no such symbols");
        let Path((text, name, id, file)) = path.map_err(|_| missing())?;
        let caller = sign_in(&keys, &server, &text, &parts).await?;
        let debug_id = parse_breakpad_id(&id).filter(|_| file.ends_with(".sym")).ok_or_else(missing)?;
        if visible_ids(&symbolication.storage, &caller, [debug_id].into()).await?.is_empty() {
            return Err(missing());
        }
        breakpad::answer_symbols(&symbolication, &caller.tenant, &debug_id, &name).await
    };
    finish_answer(answer.await, &parts)
}

/// Finds the key of a request, and counts the request as its tenant's.
async fn sign_in(
    keys: &Keys,
    server: &SymbolServer,
    text: &str,
    parts: &Parts,
) -> Result<NamesCaller, Problem> {
    if let Some(ClientAddress(address)) = parts.extensions.get::<ClientAddress>() {
        server.keys.take_address(&keys.storage, *address)?;
    }
    let caller = server.keys.find_caller(keys, text).await?;
    assign_caller(&parts.extensions, &keys.capacity, Caller::Public(caller.tenant.clone()))?;
    // Not before: a request may only ask whose it is.
    server.keys.note_use(keys, &caller);
    tracing::debug!(names_key.id = caller.prefix, "a request of a names key");
    Ok(caller)
}

/// Returns the debug ids that the key may read. A key for one app reads those that an upload brought for it.
async fn visible_ids(
    storage: &Storage,
    caller: &NamesCaller,
    ids: BTreeSet<DebugId>,
) -> Result<BTreeSet<DebugId>, Problem> {
    let Some(app) = caller.apps.first() else { return Ok(ids) };
    let asked: Vec<DebugId> = ids.into_iter().collect();
    let mut tx = storage.tenant(&caller.tenant).await?;
    let apps = list_apps(&mut tx, &asked).await?;
    tx.rollback();
    let is_own = |id: &DebugId| apps.contains(&(*id, Some(app.clone())));
    Ok(asked.into_iter().filter(is_own).collect())
}

/// Fetches the symbols of images. The cache of system symbols is asked only for those that are there: it is shared, and its
/// answers to unknown ids would tell by their time which ids another tenant asked for.
///
/// # Errors
/// The database does not answer.
async fn fetch_symbols(
    symbolication: &Symbolication,
    tenant: &unslide_model::TenantId,
    ids: impl IntoIterator<Item = DebugId>,
) -> Result<SymbolsOfReport, Problem> {
    let ids: Vec<DebugId> = ids.into_iter().collect();
    let mut tx = symbolication.storage.tenant(tenant).await?;
    let answering = slots::find_answering(&mut tx, &ids).await?;
    tx.rollback();
    let need = |debug_id| {
        let system = answering.system.contains_key(&debug_id);
        SymbolNeed { debug_id, cpu: None, system, name: String::new() }
    };
    let needs = ids.into_iter().map(need).collect();
    let (cached, cold) = SymbolsOfReport::from_cache(symbolication, tenant, needs, Arc::default());
    Ok(cached.fetch_rest(symbolication, tenant, cold).await)
}

/// A failure in the form that profilers read.
#[derive(Serialize)]
struct NamesFailure<'p> {
    title: &'static str,
    error: &'p str,
}

/// Lets pages of any origin read the answer: no cookie comes with such a request, and the key is in the path.
fn finish_answer(answer: Result<Response, Problem>, parts: &Parts) -> Response {
    let problem = match answer {
        Ok(response) => return allow_origins(response),
        Err(problem) => problem,
    };
    let request_id = parts.extensions.get::<RequestId>().map_or("", |id| id.0.as_str());
    problem.log_fault(request_id);
    let title = problem.kind().title();
    // A fault keeps its cause for the log.
    let detail = problem.detail().filter(|_| !problem.kind().status().is_server_error());
    let failure = NamesFailure { title, error: detail.unwrap_or(title) };
    let mut response = (problem.kind().status(), Json(failure)).into_response();
    if let Some(seconds) = problem.retry_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response.extensions_mut().insert(Rendered);
    allow_origins(response)
}

fn allow_origins(mut response: Response) -> Response {
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}
