//! The begin of a sign-in.

use super::failure::{SignInRefusal, no_provider, refuse};
use super::{
    SIGN_IN_TIMEOUT, SSO_PATH, callback_url, find_next, find_provider, open_page, remembered_tenant,
    tenant_path,
};
use crate::binding::{BegunSignIn, SignInNote, SignInSecret, outdated_cookies};
use crate::provider::SignInRequest;
use crate::store::SignInProvider;
use crate::{People, PeopleExtension};
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{HOST, REFERER, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use std::sync::Arc;
use time::Duration;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::{Kind, Path, Problem, Query};
use unslide_model::TenantId;
use unslide_site::{
    RequestOrigin, SentForm, Shell, Template, build_link, escaping, filters, find_browser_session,
    read_form_bytes, render_html,
};

#[derive(Template)]
#[template(path = "people/tenant.html", askama = escaping)]
struct TenantPage {
    shell: Shell,
    tenant: String,
    next: Option<String>,
}

/// The tenant of the form, and the page to open in the end.
#[derive(Debug, Default, Deserialize)]
pub struct TenantQuery {
    tenant: Option<String>,
    next: Option<String>,
}

/// `GET /console/sso`: asks for the tenant, and leads to its sign-in.
pub async fn ask_tenant(
    Query(query): Query<TenantQuery>,
    origin: RequestOrigin,
) -> Result<Response, Problem> {
    let next = find_next(query.next);
    let named = query.tenant.as_deref().map(str::trim).filter(|tenant| !tenant.is_empty());
    match named {
        Some(named) if is_from_console(&origin.headers) => {
            let wrong = |error| Problem::new(Kind::InvalidParameter, format!("tenant: {error}"));
            let tenant = TenantId::new(named).map_err(wrong)?;
            open_page(&build_link(&tenant_path(&tenant), &[("next", next.as_deref())]))
        }
        named => {
            let remembered = || remembered_tenant(&origin).map(|tenant| tenant.as_str().to_owned());
            let tenant = named.map(str::to_owned).or_else(remembered).unwrap_or_default();
            render_html(&TenantPage { shell: Shell::signed_out(), tenant, next })
        }
    }
}

/// Returns true if a page of the console led here. Browsers say so; others than browsers need no protection from links.
fn is_from_console(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(referer) = text(REFERER) else { return true };
    let host = referer.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    host.is_some() && host == text(HOST)
}

/// The wishes of a link to the sign-in.
#[derive(Debug, Default, Deserialize)]
pub struct BeginQuery {
    next: Option<String>,
    /// `other`: the person wants to choose an account.
    account: Option<String>,
}

#[derive(Template)]
#[template(path = "people/ask.html", askama = escaping)]
struct AskPage {
    shell: Shell,
    tenant: String,
    /// The tenant of the browser's session, if it is another one.
    signed_in_at: Option<String>,
    next: Option<String>,
    chooses_account: bool,
}

/// `GET /console/sso/{tenant}`: sends the browser to the provider. A link of another site could lead a visitor into a tenant
/// that they do not know, so a page asks first, unless the browser signed in at this tenant the last time.
pub async fn begin_from_link(
    State(keys): State<Arc<Keys>>,
    Extension(people): PeopleExtension,
    Path(tenant): Path<TenantId>,
    Query(query): Query<BeginQuery>,
    origin: RequestOrigin,
) -> Result<Response, Problem> {
    let Some(provider) = find_provider(&keys.storage, &people, &tenant, &origin).await? else {
        return Ok(no_provider(&tenant));
    };
    let session = find_browser_session(&origin.headers, &origin.extensions, &keys.storage).await?;
    let (next, chooses_account) = (find_next(query.next), query.account.is_some());
    let signed_in_at = session.as_ref().map(|own| &own.tenant).filter(|own| **own != tenant);
    let is_expected =
        is_from_console(&origin.headers) || remembered_tenant(&origin).as_ref() == Some(&tenant);
    if signed_in_at.is_some() || !is_expected {
        return render_html(&AskPage {
            shell: Shell::signed_out(),
            tenant: tenant.to_string(),
            signed_in_at: signed_in_at.map(TenantId::to_string),
            next,
            chooses_account,
        });
    }
    let note = SignInNote { next, chooses_account, ..SignInNote::default() }.with_session(session.as_ref());
    match begin(&keys, &people, &tenant, &provider, &origin, note).await? {
        Begun::AtProvider(url, cookies) => Ok((cookies.into_headers(), Redirect::to(&url)).into_response()),
        Begun::Failed(response) => Ok(response),
    }
}

/// `POST /console/sso/{tenant}`: does the same for a person who pressed the button of the page that asks.
pub async fn begin_from_form(
    State(keys): State<Arc<Keys>>,
    Extension(people): PeopleExtension,
    Path(tenant): Path<TenantId>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let sent = read_form_bytes(&parts, body).await?;
    let form = SentForm::from_fields(form_urlencoded::parse(&sent).into_owned().collect());
    let origin = RequestOrigin { headers: parts.headers, extensions: parts.extensions };
    let Some(provider) = find_provider(&keys.storage, &people, &tenant, &origin).await? else {
        return Ok(no_provider(&tenant));
    };
    let session = find_browser_session(&origin.headers, &origin.extensions, &keys.storage).await?;
    let next = find_next(form.get("next").map(str::to_owned));
    let note = SignInNote { next, chooses_account: form.has_field("account"), ..SignInNote::default() };
    match begin(&keys, &people, &tenant, &provider, &origin, note.with_session(session.as_ref())).await? {
        Begun::AtProvider(url, cookies) => Ok((cookies.into_headers(), open_page(&url)?).into_response()),
        Begun::Failed(response) => Ok(response),
    }
}

/// Cookies of an answer.
pub struct SetCookies(Vec<HeaderValue>);

impl SetCookies {
    fn into_headers(self) -> HeaderMap {
        self.0.into_iter().fold(HeaderMap::new(), |mut headers, cookie| {
            headers.append(SET_COOKIE, cookie);
            headers
        })
    }
}

/// The begin of a sign-in.
enum Begun {
    /// The address at the provider, and the cookies with which the browser goes there.
    AtProvider(String, SetCookies),
    Failed(Response),
}

/// Begins a sign-in: makes its cookie and the address at the provider.
async fn begin(
    keys: &Keys,
    people: &People,
    tenant: &TenantId,
    provider: &SignInProvider,
    origin: &RequestOrigin,
    note: SignInNote,
) -> Result<Begun, Problem> {
    if origin.needs_https() {
        return Ok(Begun::Failed(refuse(&keys.storage, people, tenant, SignInRefusal::needs_https()).await));
    }
    let token = keys.entropy.generate_token().map_err(Problem::internal)?;
    let redirect = callback_url(&people.public_url, &origin.headers, tenant);
    let begun = BegunSignIn { secret: SignInSecret::new(token, tenant), note };
    let request =
        SignInRequest { refusals: begun.note.refusals, chooses_account: begun.note.chooses_account };
    let _waiting = people.providers.begin_waiting(tenant)?;
    match people.providers.sign_in_url(tenant, provider, &redirect, &begun.secret, request).await {
        Ok(url) => {
            let (cookie, text) = begun.to_cookie();
            let mut cookies = vec![cookie.build_text_header(&text, SIGN_IN_TIMEOUT, origin)?];
            for outdated in outdated_cookies(origin) {
                cookies.push(outdated.build_text_header("", Duration::ZERO, origin)?);
            }
            Ok(Begun::AtProvider(url, SetCookies(cookies)))
        }
        Err(error) => Ok(Begun::Failed(
            refuse(
                &keys.storage,
                people,
                tenant,
                SignInRefusal::from_provider(&error).with_next(begun.note.next),
            )
            .await,
        )),
    }
}

/// Begins a sign-in once more with fewer scopes, after the provider has refused those that were requested.
///
/// # Errors
/// The provider or the operating system fails.
pub async fn begin_with_less(
    keys: &Keys,
    people: &People,
    tenant: &TenantId,
    provider: &SignInProvider,
    origin: &RequestOrigin,
    note: SignInNote,
) -> Result<Response, Problem> {
    let note = SignInNote { refusals: note.refusals.saturating_add(1), ..note };
    match begin(keys, people, tenant, provider, origin, note).await? {
        Begun::AtProvider(url, cookies) => Ok((cookies.into_headers(), Redirect::to(&url)).into_response()),
        Begun::Failed(response) => Ok(response),
    }
}

impl AskPage {
    /// Returns the address of the form.
    fn action(&self) -> String {
        format!("{SSO_PATH}/{}", self.tenant)
    }
}
