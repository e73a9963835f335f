//! The requests of `posthog-cli`: symbol sets, one for each architecture.
//!
//! The client declares symbol sets (`symbol_sets`), gets a URL for each, and puts a container (`container`) there without its
//! key. So the URL itself permits one upload for some minutes (`upload_url`). Releases are answered and not kept.

mod answer;
mod container;
mod releases;
mod symbol_sets;
mod upload_url;

use crate::sign_in::bearer_token;
use answer::PosthogAnswer;
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::routing::{get, post, put};
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::SymbolsWrite;
use unslide_api::problem::{Kind, Problem};

/// The beginning that the client demands of a key.
const KEY_PREFIX: &str = "phx_";

/// The settings of the routes.
#[derive(Clone, Debug)]
struct PosthogRoutes {
    /// The address of the api; empty if it is not configured.
    public_url: String,
}

/// Returns the routes of `posthog-cli`.
pub fn posthog_routes(public_url: String) -> OperationRouter {
    let path = |end: &str| format!("/api/projects/{{project}}/error_tracking/{end}");
    OperationRouter::new()
        .route(&path("releases/hash/{hash}"), get(find_release))
        .route(&path("releases"), post(create_release))
        .route(&path("symbol_sets/bulk_check_upload"), post(check_sets))
        .route(&path("symbol_sets/bulk_start_upload"), post(start_sets))
        .route(&path("symbol_sets/bulk_finish_upload"), post(finish_sets))
        .route(&path("symbol_sets/{url}"), put(receive_set))
        .layer(Extension(Arc::new(PosthogRoutes { public_url })))
}

/// Checks the key of a request.
async fn sign_in(keys: &Keys, parts: &Parts) -> Result<Access<SymbolsWrite>, Problem> {
    let token = bearer_token(&parts.headers);
    crate::sign_in::sign_in(keys, parts, token.strip_prefix(KEY_PREFIX).unwrap_or(token)).await
}

async fn find_release(State(keys): State<Arc<Keys>>, request: Request) -> PosthogAnswer {
    let (parts, _) = request.into_parts();
    let found = async {
        sign_in(&keys, &parts).await?;
        Err(Problem::new(Kind::NotFound, "releases are not kept"))
    };
    PosthogAnswer::from_result(found.await, &parts)
}

async fn create_release(State(keys): State<Arc<Keys>>, request: Request) -> PosthogAnswer {
    let (parts, body) = request.into_parts();
    let created = async {
        let access = sign_in(&keys, &parts).await?;
        releases::answer_release(&keys.capacity, &access, &parts.headers, body).await
    };
    PosthogAnswer::from_result(created.await, &parts)
}

async fn check_sets(State(keys): State<Arc<Keys>>, request: Request) -> PosthogAnswer {
    let (parts, body) = request.into_parts();
    let checked = async {
        let access = sign_in(&keys, &parts).await?;
        symbol_sets::list_missing(&keys.storage, &access, &parts.headers, body).await
    };
    PosthogAnswer::from_result(checked.await, &parts)
}

async fn start_sets(
    State(keys): State<Arc<Keys>>,
    Extension(routes): Extension<Arc<PosthogRoutes>>,
    Path(project): Path<String>,
    request: Request,
) -> PosthogAnswer {
    let (parts, body) = request.into_parts();
    let started = async {
        let access = sign_in(&keys, &parts).await?;
        let origin = crate::origin::own_origin(&routes.public_url, &parts.headers)?;
        let folder = format!("{origin}/api/projects/{project}/error_tracking/symbol_sets");
        symbol_sets::list_urls(&keys, &access, &folder, &parts.headers, body).await
    };
    PosthogAnswer::from_result(started.await, &parts)
}

async fn finish_sets(State(keys): State<Arc<Keys>>, request: Request) -> PosthogAnswer {
    let (parts, _) = request.into_parts();
    // Every file is an upload since it was put.
    let finished = sign_in(&keys, &parts).await.map(|_| serde_json::json!({}));
    PosthogAnswer::from_result(finished, &parts)
}

async fn receive_set(
    State(storage): State<Arc<Storage>>,
    Path((_, url)): Path<(String, String)>,
    request: Request,
) -> PosthogAnswer {
    let (parts, body) = request.into_parts();
    let received = symbol_sets::receive_set(&storage, &parts, &url, body).await;
    PosthogAnswer::from_result(received.map(|()| serde_json::json!({})), &parts)
}
