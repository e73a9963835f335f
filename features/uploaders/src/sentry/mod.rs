//! The chunk upload of Sentry's clients: `sentry-cli` and `sentry`.
//!
//! A client asks for the sizes (`options`), says which chunks make which files (`assemble`), sends the chunks that are
//! missing (`chunks`), and asks again until each file has its final state. An archive with source maps goes the same way
//! (`artifact_bundle`). A process of the api makes the files (`assembly`). `token` has the form of key that these clients expect.

mod answer;
mod artifact_bundle;
mod assemble;
mod assembly;
mod chunks;
mod file_states;
mod hash;
mod options;
mod store;
mod token;

pub use assembly::Assembler;
pub use store::OWNED_TABLES;

use answer::{Answer, SentryAnswer};
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::routing::{any, get, post};
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::SymbolsWrite;
use unslide_api::problem::{Kind, Problem};

/// The settings of the routes.
#[derive(Clone, Debug)]
struct SentryRoutes {
    /// The address of the api; empty if it is not configured.
    public_url: String,
}

/// Returns the routes of Sentry's clients.
pub fn sentry_routes(public_url: String) -> OperationRouter {
    OperationRouter::new()
        .route("/api/0/", get(options::get_account))
        .route("/api/0/organizations/{org}/", get(options::get_organization))
        .route("/api/0/organizations/{org}/chunk-upload/", get(options::get_options).post(receive_chunks))
        .route("/api/0/projects/{org}/{project}/files/difs/assemble/", post(assemble_files))
        .route("/api/0/organizations/{org}/artifactbundle/assemble/", post(assemble_bundle))
        .route("/api/0/{*rest}", any(refuse_path))
        .layer(Extension(Arc::new(SentryRoutes { public_url })))
}

/// Signs a request in for the organisation in its path, which is the tenant.
async fn sign_in(keys: &Keys, parts: &Parts, org: Option<&str>) -> Result<Access<SymbolsWrite>, Problem> {
    let token = token::SentryToken::from_text(crate::sign_in::bearer_token(&parts.headers));
    let access = crate::sign_in::sign_in(keys, parts, &token.key).await?;
    let tenant = access.tenant().as_str();
    if token.org.is_some_and(|claimed| claimed != tenant) {
        return Err(Problem::new(Kind::Unauthorized, "the token names another organisation than its key"));
    }
    // The answer is the same for a slug of another tenant and for one that no tenant has.
    if org.is_some_and(|org| org != tenant) {
        return Err(Problem::new(
            Kind::NotFound,
            "this key has no such organisation: name the tenant of the key",
        ));
    }
    Ok(access)
}

async fn receive_chunks(
    State(keys): State<Arc<Keys>>,
    Path(org): Path<String>,
    request: Request,
) -> SentryAnswer {
    let (parts, body) = request.into_parts();
    let received = async {
        let access = sign_in(&keys, &parts, Some(&org)).await?;
        chunks::store_chunks(&keys.storage, &access, &parts.headers, body).await
    };
    SentryAnswer::from_result(received.await.map(|()| Answer::Empty), &parts)
}

async fn assemble_files(
    State(keys): State<Arc<Keys>>,
    Extension(assembler): Extension<Arc<Assembler>>,
    Path((org, project)): Path<(String, String)>,
    request: Request,
) -> SentryAnswer {
    let (parts, body) = request.into_parts();
    let assembled = async {
        let access = sign_in(&keys, &parts, Some(&org)).await?;
        assemble::assemble_files(&keys.storage, &assembler, &access, project, &parts.headers, body).await
    };
    SentryAnswer::from_result(assembled.await.map(Answer::Json), &parts)
}

async fn assemble_bundle(
    State(keys): State<Arc<Keys>>,
    Extension(assembler): Extension<Arc<Assembler>>,
    Path(org): Path<String>,
    request: Request,
) -> SentryAnswer {
    let (parts, body) = request.into_parts();
    let assembled = async {
        let access = sign_in(&keys, &parts, Some(&org)).await?;
        artifact_bundle::assemble_bundle(&keys.storage, &assembler, &access, &parts.headers, body).await
    };
    SentryAnswer::from_result(assembled.await.map(Answer::Json), &parts)
}

async fn refuse_path(request: Request) -> SentryAnswer {
    let (parts, _) = request.into_parts();
    let detail = "this server has only the routes that upload debug files and source maps";
    SentryAnswer::from_result(Err(Problem::new(Kind::NotFound, detail)), &parts)
}
