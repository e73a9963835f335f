//! `/console/sso`: sign-in at the identity provider of a tenant.

mod begin;
mod failure;
mod finish;
mod sign_out;
mod sign_out_notice;

pub use sign_out_notice::routes as notice_routes;

use crate::People;
use crate::store::{self, SignInProvider};
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, StatusCode};
use time::Duration;
use unslide_api::feature::Storage;
use unslide_api::feature::intake::ClientAddress;
use unslide_api::feature::operation::{Api, Problem};
use unslide_model::TenantId;
use unslide_site::{
    BrowserCookie, Caller, RequestOrigin, Shell, Template, assign_caller, build_link, escaping, filters,
    html_with, render_html, return_path,
};
use unslide_store::tenants::{self, TenantStanding};

/// The path of the page.
pub const SSO_PATH: &str = "/console/sso";
/// How long a person may take at the provider: as long as Keycloak's sign-in page stays valid.
const SIGN_IN_TIMEOUT: Duration = Duration::minutes(30);
/// The cookie with the tenant of the last sign-in of a person.
const TENANT_COOKIE: BrowserCookie = BrowserCookie::for_navigation("unslide_sso_tenant");
/// How long a browser remembers it.
const TENANT_COOKIE_LIFETIME: Duration = Duration::days(180);

/// Returns the routes of the pages.
pub fn routes() -> Router<Api> {
    Router::new()
        .route(SSO_PATH, get(begin::ask_tenant))
        .route("/console/sso/{tenant}", get(begin::begin_from_link).post(begin::begin_from_form))
        .route("/console/sso/{tenant}/callback", get(finish::finish_sign_in))
        .route("/console/sso/{tenant}/finished", get(finish::show_end))
        .route("/console/sso/{tenant}/signed-out", get(sign_out::render_page))
}

#[derive(Template)]
#[template(path = "people/opening.html", askama = escaping)]
struct OpeningPage {
    shell: Shell,
    next: String,
}

/// Returns a page that opens another one at once. The content security policy keeps a form from leading to another host,
/// even by a redirect; a page may.
fn open_page(next: &str) -> Result<Response, Problem> {
    render_html(&OpeningPage { shell: Shell::signed_out(), next: next.to_owned() })
}

/// Returns such a page for a request that is wrong.
fn open_page_after_failure(next: &str) -> Response {
    let page = OpeningPage { shell: Shell::signed_out(), next: next.to_owned() };
    html_with(StatusCode::BAD_REQUEST, &page)
}

/// Returns the path at which people of a tenant sign in.
fn tenant_path(tenant: &TenantId) -> String {
    format!("{SSO_PATH}/{tenant}")
}

/// Returns the address of a page to open after a sign-in, if it is one: the first page and the pages of the sign-in are none.
fn find_next(next: Option<String>) -> Option<String> {
    let path = return_path(next);
    let is_own =
        path.strip_prefix(SSO_PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    (path != "/console" && !is_own).then_some(path)
}

/// Returns the tenant that the browser remembers.
fn remembered_tenant(origin: &RequestOrigin) -> Option<TenantId> {
    TENANT_COOKIE.find_text(origin).and_then(|text| TenantId::new(text).ok())
}

/// Returns the `Set-Cookie` header with which the browser remembers a tenant.
fn remember_tenant(tenant: &TenantId, origin: &RequestOrigin) -> Result<HeaderValue, Problem> {
    TENANT_COOKIE.build_text_header(tenant.as_str(), TENANT_COOKIE_LIFETIME, origin)
}

/// Returns the provider of a tenant that is not deleted. A tenant that does not exist looks like one without a provider.
/// From then on the request counts as the tenant's.
async fn find_provider(
    storage: &Storage,
    people: &People,
    tenant: &TenantId,
    origin: &RequestOrigin,
) -> Result<Option<SignInProvider>, Problem> {
    if let Some(ClientAddress(address)) = origin.extensions.get::<ClientAddress>() {
        people.addresses.take_request(storage.clock.monotonic_micros(), *address)?;
    }
    let mut tx = storage.tenant(tenant).await?;
    let standing = tenants::read_standing(&mut tx).await?;
    if standing.is_none_or(|standing| standing == TenantStanding::Deleted) {
        return Ok(None);
    }
    let provider = store::get_provider(&mut tx).await?;
    tx.rollback();
    if provider.is_some() {
        assign_caller(&origin.extensions, &storage.capacity, Caller::Public(tenant.clone()))?;
    }
    Ok(provider)
}

/// Returns the address to which the provider sends the browser back.
fn callback_url(public_url: &str, headers: &HeaderMap, tenant: &TenantId) -> String {
    own_url(public_url, headers, &format!("{}/callback", tenant_path(tenant)))
}

/// Returns the path of the page after a sign-out.
fn signed_out_path(tenant: &TenantId) -> String {
    format!("{}/signed-out", tenant_path(tenant))
}

/// Returns the address of a path of the console.
fn own_url(public_url: &str, headers: &HeaderMap, path: &str) -> String {
    let base = if public_url.is_empty() {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
        let is_local = ["localhost", "127.0.0.1", "[::1]"].iter().any(|local| host.starts_with(local));
        format!("{}://{host}", if is_local { "http" } else { "https" })
    } else {
        public_url.trim_end_matches('/').to_owned()
    };
    format!("{base}{path}")
}

/// Returns the address at which a sign-in with these wishes begins.
fn begin_link(tenant: &TenantId, next: Option<&str>, chooses_account: bool) -> String {
    build_link(&tenant_path(tenant), &[("next", next), ("account", chooses_account.then_some("other"))])
}

/// Returns the links of a page for a person who is not signed in: to try again, and to choose another account.
pub fn retry_links(tenant: &TenantId, next: Option<&str>) -> (String, String) {
    (begin_link(tenant, next, false), begin_link(tenant, next, true))
}
