//! `/console/sign-in` and `/console/sign-out`.

use crate::cookie::{RequestOrigin, needs_https};
use crate::escaping::{self, Template, filters};
use crate::form::NEEDS_HTTPS;
use crate::link::{build_link, is_local};
use crate::session::{build_cookie, end_browser_session, find_browser_session, find_session};
use crate::shell::{FIRST_PAGE, Shell, SideBar, first_page, html_with, list_entries, render_html};
use crate::store::{self, NewSession, SESSION_LIFETIME};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::SET_COOKIE;
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use time::Duration as TimeSpan;
use unslide_api::feature::intake::Caller;
use unslide_api::feature::intake::assign_caller;
use unslide_api::feature::operation::{Charge, Query};
use unslide_api::feature::site::ClientPace;
use unslide_api::feature::site::Tx;
use unslide_api::feature::site::authenticate_key;
use unslide_api::feature::upload::Chunks;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace};
use unslide_api::feature::{Keys, Storage};
use unslide_api::problem::{Kind, Problem};
use unslide_model::{Scope, TenantId};
use unslide_store::keys::Principal;
use unslide_store::{TenantTx, Uuid, audit, tenants};

/// Maximum size of the form, in bytes.
const FORM_BYTES: u64 = 4 << 10;
/// How long the form may take.
const FORM_TIMEOUT: Duration = Duration::from_secs(3);
/// Cost units of a sign-in, as many as those of 100 reports.
const SIGN_IN_UNITS: usize = 100;
/// The scopes of pages. A key needs one of them to see any page.
const PAGE_SCOPES: [Scope; 4] = [Scope::ReportsRead, Scope::SymbolsRead, Scope::TenantAdmin, Scope::Operator];
/// Maximum bytes of the address of a page to open after a sign-in. The cookie of a sign-in holds it, and has about 4 KiB.
pub const RETURN_PATH_BYTES_LIMIT: usize = 2_000;
/// Maximum characters of a name.
const LONGEST_NAME: usize = 60;

/// The address to return to after a sign-in.
#[derive(Debug, Default, Deserialize)]
pub struct BackQuery {
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "site/sign_in.html", askama = escaping)]
struct SignInPage {
    shell: Shell,
    next: String,
    name: String,
    failure: Option<SignInFailure>,
    /// Ways to sign in without a key.
    others: Vec<NavigationEntry>,
}

/// The reason why a sign-in failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignInFailure {
    /// The key is not valid.
    Refused,
    /// The key has no scope that a page needs.
    SeesNoPage,
    /// The browser would not keep the cookie.
    NeedsHttps,
}

/// The ways to sign in other than with a key.
#[derive(Clone)]
pub struct SignInWays(Arc<[NavigationEntry]>);

impl SignInWays {
    pub fn from_features(features: &[ApiFeature]) -> SignInWays {
        SignInWays(list_entries(features, NavigationPlace::SignIn).collect())
    }
}

impl SignInPage {
    fn new(ways: &SignInWays, next: String, name: String, failure: Option<SignInFailure>) -> SignInPage {
        SignInPage { shell: Shell::signed_out(), next, name, failure, others: ways.0.to_vec() }
    }

    /// Returns the address of another way to sign in, which leads to the same page in the end.
    fn other_path(&self, other: &NavigationEntry) -> String {
        build_link(other.path, &[("next", Some(self.next.as_str()).filter(|next| *next != FIRST_PAGE))])
    }

    fn failed_by(&self, failure: SignInFailure) -> bool {
        self.failure == Some(failure)
    }
}

/// Returns the page to open after a sign-in, if a request names one of the console.
#[must_use]
pub fn return_path(next: Option<String>) -> String {
    let next = next.filter(|next| next.len() <= RETURN_PATH_BYTES_LIMIT && is_local(next));
    next.unwrap_or_else(|| FIRST_PAGE.to_owned())
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    Extension(ways): Extension<SignInWays>,
    Query(query): Query<BackQuery>,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let next = return_path(query.next);
    if let Some(session) = find_session(&headers, &extensions, &storage).await? {
        assign_caller(&extensions, &storage.capacity, Caller::Tenant(session.principal.tenant))?;
        return Ok(Redirect::to(&next).into_response());
    }
    let failure = needs_https(&headers).then_some(SignInFailure::NeedsHttps);
    render_html(&SignInPage::new(&ways, next, String::new(), failure))
}

/// The fields of the form.
#[derive(Default)]
struct Form {
    key: String,
    name: String,
    next: Option<String>,
}

/// `POST /console/sign-in`: looks the key up as for the API, and neither stores nor logs it.
pub async fn sign_in(
    State(keys): State<Arc<Keys>>,
    Extension(ways): Extension<SignInWays>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let form = parse_form(&read_form_bytes(&parts, body).await?);
    let next = return_path(form.next);
    if needs_https(&parts.headers) {
        // The browser would drop the cookie and return to this page without a message.
        let page = SignInPage::new(&ways, next, form.name, Some(SignInFailure::NeedsHttps));
        return Ok(html_with(StatusCode::BAD_REQUEST, &page));
    }
    match authenticate_key(&parts.extensions, &keys, form.key.trim()).await {
        Ok(principal) if !PAGE_SCOPES.iter().any(|scope| principal.has_scope(*scope)) => {
            let page = SignInPage::new(&ways, next, form.name, Some(SignInFailure::SeesNoPage));
            Ok(html_with(StatusCode::FORBIDDEN, &page))
        }
        Ok(principal) => {
            let next = if next == FIRST_PAGE { first_page_for(&parts, &principal) } else { next.as_str() };
            begin_session(&keys, &parts, &principal, &form.name, next).await
        }
        Err(problem) if problem.kind() == Kind::Unauthorized => {
            let page = SignInPage::new(&ways, next, form.name, Some(SignInFailure::Refused));
            Ok(html_with(StatusCode::UNAUTHORIZED, &page))
        }
        Err(problem) => Err(problem),
    }
}

/// Returns the path of the first page that a key may open.
fn first_page_for(parts: &Parts, principal: &Principal) -> &'static str {
    let side_bar = parts.extensions.get::<SideBar>().cloned().unwrap_or_default();
    first_page(&side_bar.0, |entry| {
        principal.has_scope(entry.scope) && (principal.app.is_none() || !entry.needs_every_app)
    })
}

/// Reads the bytes of a form that comes without a key.
///
/// # Errors
/// The body is too large, too slow or not whole.
pub async fn read_form_bytes(parts: &Parts, body: Body) -> Result<Vec<u8>, Problem> {
    let pace = ClientPace::new(FORM_TIMEOUT, FORM_BYTES);
    let mut chunks = Chunks::new(&parts.headers, body, FORM_BYTES, pace)?;
    let mut sent = Vec::new();
    while let Some(piece) = chunks.next().await? {
        sent.extend_from_slice(&piece);
    }
    Ok(sent)
}

fn parse_form(sent: &[u8]) -> Form {
    let mut form = Form::default();
    for (name, value) in form_urlencoded::parse(sent) {
        match &*name {
            "key" => form.key = value.into_owned(),
            "name" => form.name = clean_name(&value),
            "next" => form.next = Some(value.into_owned()),
            _ => {}
        }
    }
    form
}

fn clean_name(name: &str) -> String {
    name.trim().chars().filter(|character| !character.is_control()).take(LONGEST_NAME).collect()
}

async fn begin_session(
    keys: &Keys,
    parts: &Parts,
    principal: &Principal,
    name: &str,
    next: &str,
) -> Result<Response, Problem> {
    assign_caller(&parts.extensions, &keys.capacity, Caller::Tenant(principal.tenant.clone()))?;
    Charge::for_reports(&keys.capacity, &principal.tenant, principal.limits.units_per_second)?
        .charge_reports(SIGN_IN_UNITS)?;
    if let Some(before) = find_browser_session(&parts.headers, &parts.extensions, &keys.storage).await? {
        end_browser_session(&keys.storage, &before).await?;
    }
    let token = keys.entropy.generate_token().map_err(Problem::internal)?;
    let mut tx = keys.storage.tenant(&principal.tenant).await?;
    let name = Some(name).filter(|name| !name.is_empty());
    let session = NewSession {
        key_id: principal.key_id,
        token: &token,
        name,
        lifetime: SESSION_LIFETIME,
        provider_session: None,
        sign_out_path: None,
    };
    store::begin_session(&mut tx, &session).await?;
    let key = principal.key_id.to_string();
    audit::append_once_an_hour(&mut tx, &key, "console.sign_in", &key).await?;
    tx.commit().await?;
    let cookie = build_cookie(Some(&token), SESSION_LIFETIME, &parts.headers, &parts.extensions)?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to(next)).into_response())
}

/// A person who has signed in elsewhere, and the key that they act by.
pub struct SignedInPerson<'p> {
    pub tenant: &'p TenantId,
    /// A key of the tenant.
    pub key_id: Uuid,
    /// The person's name.
    pub name: &'p str,
    /// How long the session lasts.
    pub lifetime: TimeSpan,
    /// The identity provider's id of its own session.
    pub provider_session: Option<&'p str>,
    /// The page after the sign-out.
    pub sign_out_path: &'p str,
}

/// Begins a session of a person, and commits. Returns the `Set-Cookie` header.
///
/// # Errors
/// The tenant's rate is used up, or the database fails.
pub async fn begin_person_session(
    keys: &Keys,
    mut tx: Tx<TenantTx>,
    person: &SignedInPerson<'_>,
    origin: &RequestOrigin,
) -> Result<HeaderValue, Problem> {
    assign_caller(&origin.extensions, &keys.capacity, Caller::Tenant(person.tenant.clone()))?;
    let limits = tenants::get(&mut tx).await?.map(|tenant| tenant.limits).unwrap_or_default();
    Charge::for_reports(&keys.capacity, person.tenant, limits.units_per_second)?
        .charge_reports(SIGN_IN_UNITS)?;
    let token = keys.entropy.generate_token().map_err(Problem::internal)?;
    let session = NewSession {
        key_id: person.key_id,
        token: &token,
        name: Some(person.name),
        lifetime: person.lifetime,
        provider_session: person.provider_session,
        sign_out_path: Some(person.sign_out_path),
    };
    store::begin_session(&mut tx, &session).await?;
    let key = person.key_id.to_string();
    audit::append_once_an_hour(&mut tx, &key, "console.sign_in", &key).await?;
    tx.commit().await?;
    build_cookie(Some(&token), person.lifetime, &origin.headers, &origin.extensions)
}

pub async fn sign_out(State(storage): State<Arc<Storage>>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let mut next = None;
    if let Some(session) = find_browser_session(&parts.headers, &parts.extensions, &storage).await? {
        assign_caller(&parts.extensions, &storage.capacity, Caller::Tenant(session.tenant.clone()))?;
        next = end_browser_session(&storage, &session).await?;
    }
    let cookie = build_cookie(None, SESSION_LIFETIME, &parts.headers, &parts.extensions)?;
    let next = next.as_deref().unwrap_or("/console/sign-in");
    Ok(([(SET_COOKIE, cookie)], Redirect::to(next)).into_response())
}
