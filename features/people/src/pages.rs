//! `/console/sso`: sign-in at the identity provider of a tenant.

use crate::binding::SignInSecret;
use crate::identity::Identity;
use crate::provider::ProviderError;
use crate::store::{self, SignInProvider};
use crate::{People, PeopleExtension};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router};
use http::header::{HOST, SET_COOKIE};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use time::Duration;
use unslide_api::feature::intake::ClientAddress;
use unslide_api::feature::operation::{Api, Kind, Path, Problem, Query};
use unslide_console::page::{
    BrowserCookie, Caller, RequestOrigin, Shell, SignedInPerson, Template, assign_caller,
    begin_person_session, end_sessions_of_keys, escaping, filters, html_with, render_html,
};
use unslide_model::TenantId;
use unslide_store::tenants::{self, TenantStanding};

/// The path of the page.
pub const SSO_PATH: &str = "/console/sso";
/// The cookie that binds a sign-in to its browser.
const SIGN_IN_COOKIE: BrowserCookie = BrowserCookie::for_navigation("unslide_sign_in");
/// How long a person may take at the provider.
const SIGN_IN_TIMEOUT: Duration = Duration::minutes(10);

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new()
        .route(SSO_PATH, get(ask_tenant))
        .route("/console/sso/{tenant}", get(begin_sign_in))
        .route("/console/sso/{tenant}/callback", get(finish_sign_in))
}

#[derive(Template)]
#[template(path = "people/tenant.html", askama = escaping)]
struct TenantPage {
    shell: Shell,
}

/// The tenant of the form.
#[derive(Debug, Default, Deserialize)]
struct TenantQuery {
    tenant: Option<String>,
}

/// `GET /console/sso`: asks for the tenant, and leads to its sign-in.
async fn ask_tenant(Query(query): Query<TenantQuery>) -> Result<Response, Problem> {
    match query.tenant.as_deref().map(str::trim).filter(|tenant| !tenant.is_empty()) {
        None => render_html(&TenantPage { shell: Shell::signed_out() }),
        Some(tenant) => {
            let wrong = |error| Problem::new(Kind::InvalidParameter, format!("tenant: {error}"));
            let tenant = TenantId::new(tenant).map_err(wrong)?;
            // A form may not lead to another host, not even by a redirect. A page may.
            open_page(&format!("{SSO_PATH}/{tenant}"))
        }
    }
}

#[derive(Template)]
#[template(path = "people/failed.html", askama = escaping)]
struct FailedPage {
    shell: Shell,
    reason: String,
    again: String,
}

fn fail_sign_in(tenant: &TenantId, status: StatusCode, reason: &str) -> Response {
    let page = FailedPage {
        shell: Shell::signed_out(),
        reason: reason.to_owned(),
        again: format!("{SSO_PATH}/{tenant}"),
    };
    html_with(status, &page)
}

/// Returns the page of a provider's failure. Strangers see it, so that it names no details; the log has them.
fn fail_at_provider(people: &People, tenant: &TenantId, error: &ProviderError) -> Response {
    // The provider may have another document or new keys.
    people.providers.forget_provider(tenant);
    tracing::warn!(%tenant, error = error.explain_causes(), "a person could not sign in");
    match error {
        ProviderError::Token(_) => {
            people.count_outcome("token_refused");
            let reason = "The identity provider's token is not valid.";
            fail_sign_in(tenant, StatusCode::FORBIDDEN, reason)
        }
        ProviderError::Fetch(_) | ProviderError::Answer(_) | ProviderError::Code(_) => {
            people.count_outcome("provider_failed");
            let reason = "The identity provider does not answer as it should. Try again, or ask an administrator of your \
                          tenant.";
            fail_sign_in(tenant, StatusCode::BAD_GATEWAY, reason)
        }
    }
}

/// Returns the provider of a tenant that is not deleted. A tenant that does not exist looks like one without a provider.
/// From then on the request counts as the tenant's.
async fn find_provider(
    api: &Api,
    people: &People,
    tenant: &TenantId,
    origin: &RequestOrigin,
) -> Result<Option<SignInProvider>, Problem> {
    if let Some(ClientAddress(address)) = origin.extensions.get::<ClientAddress>() {
        people.addresses.take_request(api.clock.monotonic_micros(), *address)?;
    }
    let mut tx = api.tenant(tenant).await?;
    let standing = tenants::read_standing(&mut tx).await?;
    if standing.is_none_or(|standing| standing == TenantStanding::Deleted) {
        return Ok(None);
    }
    let provider = store::get_provider(&mut tx).await?;
    tx.rollback();
    if provider.is_some() {
        assign_caller(&origin.extensions, api, Caller::Tenant(tenant.clone()))?;
    }
    Ok(provider)
}

fn no_provider(tenant: &TenantId) -> Response {
    let reason = "There is no such tenant, or it has no identity provider. Sign in with a key.";
    fail_sign_in(tenant, StatusCode::NOT_FOUND, reason)
}

/// Returns the address to which the provider sends the browser back.
fn callback_url(public_url: &str, headers: &HeaderMap, tenant: &TenantId) -> String {
    let base = if public_url.is_empty() {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
        let is_local = ["localhost", "127.0.0.1", "[::1]"].iter().any(|local| host.starts_with(local));
        format!("{}://{host}", if is_local { "http" } else { "https" })
    } else {
        public_url.trim_end_matches('/').to_owned()
    };
    format!("{base}{SSO_PATH}/{tenant}/callback")
}

/// `GET /console/sso/{tenant}`: sends the browser to the provider.
async fn begin_sign_in(
    State(api): State<Api>,
    Extension(people): PeopleExtension,
    Path(tenant): Path<TenantId>,
    origin: RequestOrigin,
) -> Result<Response, Problem> {
    if origin.needs_https() {
        let reason = "This page came over plain HTTP, and browsers keep a sign-in only over HTTPS or from this machine.";
        return Ok(fail_sign_in(&tenant, StatusCode::BAD_REQUEST, reason));
    }
    let Some(provider) = find_provider(&api, &people, &tenant, &origin).await? else {
        return Ok(no_provider(&tenant));
    };
    let token = api.entropy.generate_token().map_err(Problem::internal)?;
    let redirect = callback_url(&people.public_url, &origin.headers, &tenant);
    let secret = SignInSecret::new(token, &tenant);
    match people.providers.sign_in_url(&tenant, &provider, &redirect, &secret).await {
        Ok(url) => {
            let cookie = SIGN_IN_COOKIE.build_header(Some(&token), SIGN_IN_TIMEOUT, &origin)?;
            Ok(([(SET_COOKIE, cookie)], Redirect::to(&url)).into_response())
        }
        Err(error) => Ok(fail_at_provider(&people, &tenant, &error)),
    }
}

/// The answer of the provider.
#[derive(Debug, Default, Deserialize)]
struct CallbackQuery {
    code: Option<String>,
    state: Option<String>,
    /// The issuer, if the provider names itself (RFC 9207).
    iss: Option<String>,
    error: Option<String>,
}

#[derive(Template)]
#[template(path = "people/opening.html", askama = escaping)]
struct OpeningPage {
    shell: Shell,
    next: String,
}

/// Returns a page that opens another one at once.
fn open_page(next: &str) -> Result<Response, Problem> {
    render_html(&OpeningPage { shell: Shell::signed_out(), next: next.to_owned() })
}

/// `GET /console/sso/{tenant}/callback`: checks the provider's answer, and begins a session.
async fn finish_sign_in(
    State(api): State<Api>,
    Extension(people): PeopleExtension,
    Path(tenant): Path<TenantId>,
    Query(query): Query<CallbackQuery>,
    origin: RequestOrigin,
) -> Result<Response, Problem> {
    let Some(provider) = find_provider(&api, &people, &tenant, &origin).await? else {
        return Ok(no_provider(&tenant));
    };
    let secret = SIGN_IN_COOKIE.find_token(&origin).map(|token| SignInSecret::new(token, &tenant));
    let is_own = |secret: &SignInSecret| {
        query.state.as_ref().is_some_and(|state| secret.matches_state(state))
            && query.iss.as_ref().is_none_or(|issuer| *issuer == provider.issuer)
    };
    let Some(secret) = secret.filter(is_own) else {
        people.count_outcome("foreign_answer");
        let reason = "This sign-in was not begun in this browser, or took more than ten minutes.";
        return Ok(fail_sign_in(&tenant, StatusCode::BAD_REQUEST, reason));
    };
    let Some(code) = query.code.filter(|_| query.error.is_none()) else {
        people.count_outcome("declined");
        let reason = "The identity provider did not sign you in.";
        return Ok(fail_sign_in(&tenant, StatusCode::FORBIDDEN, reason));
    };
    let redirect = callback_url(&people.public_url, &origin.headers, &tenant);
    match people.providers.redeem_code(&tenant, &provider, &redirect, &secret, code).await {
        Ok(identity) => begin_session(&api, &people, &tenant, &identity, &origin).await,
        Err(error) => Ok(fail_at_provider(&people, &tenant, &error)),
    }
}

/// Begins the session of a person, with the scopes of their groups. The settings are read again, in the transaction of the
/// session: they may have changed while the provider was asked.
async fn begin_session(
    api: &Api,
    people: &People,
    tenant: &TenantId,
    identity: &Identity,
    origin: &RequestOrigin,
) -> Result<Response, Problem> {
    let entropy = api.entropy.generate_key().map_err(Problem::internal)?;
    let mut tx = api.tenant(tenant).await?;
    let provider = store::lock_provider(&mut tx).await?.filter(|provider| provider.issuer == identity.issuer);
    let Some(provider) = provider else { return Ok(no_provider(tenant)) };
    let scopes = provider.scopes_for(&identity.groups);
    if scopes.is_empty() {
        let key = store::find_person_key(&mut tx, identity).await?;
        end_sessions_of_keys(&mut tx, key.as_slice()).await?;
        tx.commit().await?;
        people.count_outcome("no_scopes");
        let reason = "None of your groups may use this console. Ask an administrator of your tenant.";
        return Ok(fail_sign_in(tenant, StatusCode::FORBIDDEN, reason));
    }
    let key_id = store::record_sign_in(&mut tx, identity, &scopes, &entropy).await?;
    let lifetime = Duration::hours(provider.session_hours.into());
    let person = SignedInPerson { tenant, key_id, name: &identity.name, lifetime };
    let session = begin_person_session(api, tx, &person, origin).await?;
    people.count_outcome("signed_in");
    let over = SIGN_IN_COOKIE.build_header(None, Duration::ZERO, origin)?;
    let mut response = open_page("/console")?;
    response.headers_mut().append(SET_COOKIE, session);
    response.headers_mut().append(SET_COOKIE, over);
    Ok(response)
}
