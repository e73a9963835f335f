//! `/console/uploaders`: the keys of pipelines, and the lines that each client needs.

use crate::client_lines::{ClientLines, PipelineTarget, list_clients};
use crate::origin::own_origin;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Json, Router};
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Api, JsonBody, PageQuery, Problem, Query, TenantAdmin};
use unslide_api::feature::site::{CreatedKey, NewKeyBody, create_key, list_keys};
use unslide_model::{KeyPreset, Scope};
use unslide_site::{PageState, SentForm, Shell, SignedIn, Template, escaping, filters, render_html};
use unslide_store::keys::ApiKey;
use unslide_uploaders_formats::{SentryTokenClaim, write_sentry_token};

/// The path of the page.
pub const UPLOADERS_PATH: &str = "/console/uploaders";
/// Texts in the lines for a key that is not shown again, and for an app that is not known.
const KEY_PLACEHOLDER: &str = "unslide_…";
const TOKEN_PLACEHOLDER: &str = "sntrys_…";
const APP_PLACEHOLDER: &str = "com.example.shop";

/// The configured address of the api, or an empty text.
#[derive(Clone, Debug)]
struct PublicUrl(Arc<str>);

/// Returns the routes of the page.
pub fn page_routes(public_url: &str) -> Router<Api> {
    Router::new()
        .route(UPLOADERS_PATH, get(show_keys).post(create_from_form))
        .layer(Extension(PublicUrl(public_url.into())))
}

#[derive(Template)]
#[template(path = "uploaders/keys.html", askama = escaping)]
struct UploadersPage {
    shell: Shell,
    keys: Vec<ApiKey>,
    next: Option<String>,
    only_app: Option<String>,
    /// The viewer may make keys of pipelines.
    may_create: bool,
    clients: Vec<ClientLines>,
}

#[derive(Template)]
#[template(path = "uploaders/new_key.html", askama = escaping)]
struct NewUploaderKeyPage {
    shell: Shell,
    made: CreatedKey,
    clients: Vec<ClientLines>,
}

/// `GET /console/uploaders`: the keys in force that upload, and the lines with placeholders for a key.
async fn show_keys(
    State(storage): State<Arc<Storage>>,
    Extension(public_url): Extension<PublicUrl>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let access: Access<TenantAdmin> = signed.access;
    let query = PageQuery { limit: None, cursor: state.get_text("cursor") };
    let Json(found) = list_keys(State(storage.clone()), access.clone(), Query(query)).await?;
    let now = storage.clock.now();
    let uploads = |key: &ApiKey| {
        let is_in_force = key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now);
        is_in_force && key.scopes.contains(&Scope::SymbolsWrite)
    };
    let only_app = access.only_app().map(str::to_owned);
    let url = own_origin(&public_url.0, &headers)?;
    let target = PipelineTarget {
        url: &url,
        tenant: access.tenant().as_str(),
        app: only_app.as_deref().unwrap_or(APP_PLACEHOLDER),
        key: KEY_PLACEHOLDER,
        sentry_token: TOKEN_PLACEHOLDER,
    };
    let scopes = KeyPreset::Pipeline.scopes();
    render_html(&UploadersPage {
        clients: list_clients(&target),
        keys: found.items.into_iter().filter(uploads).collect(),
        next: found.next_cursor.map(|cursor| state.at_cursor(UPLOADERS_PATH, &[], &cursor)),
        may_create: scopes.iter().all(|scope| access.principal.has_scope(*scope)),
        only_app: only_app.clone(),
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "Uploaders"),
    })
}

/// `POST /console/uploaders`: makes a key of a pipeline, and shows its lines only once.
async fn create_from_form(
    State(keys): State<Arc<Keys>>,
    Extension(public_url): Extension<PublicUrl>,
    signed: SignedIn<TenantAdmin>,
    headers: HeaderMap,
    form: SentForm,
) -> Result<Response, Problem> {
    let url = own_origin(&public_url.0, &headers)?;
    let tenant = signed.access.tenant().clone();
    let app = form.get("app").map(str::to_owned);
    let new = NewKeyBody {
        name: form.field_text("name"),
        scopes: None,
        preset: Some(KeyPreset::Pipeline),
        app: app.clone(),
        expires_at: None,
    };
    let issued_at = keys.storage.clock.now().unix_timestamp();
    let (_, Json(made)) = create_key(State(keys), signed.access, JsonBody(new)).await?;
    let claim = SentryTokenClaim { tenant: tenant.as_str(), url: &url, issued_at };
    let sentry_token = write_sentry_token(&made.text, &claim).map_err(Problem::internal)?;
    let target = PipelineTarget {
        url: &url,
        tenant: tenant.as_str(),
        app: app.as_deref().unwrap_or(APP_PLACEHOLDER),
        key: &made.text,
        sentry_token: &sentry_token,
    };
    let clients = list_clients(&target);
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "New key of a pipeline");
    render_html(&NewUploaderKeyPage { shell, made, clients })
}
