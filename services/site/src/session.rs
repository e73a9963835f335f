//! The session cookie, and the access of requests with a session.

use super::link::{build_link, is_local};
use super::shell::{FIRST_PAGE, Shell, SideBar, render_html};
use super::viewer::{Viewer, ViewerCell};
use crate::cookie::BrowserCookie;
use crate::escaping::{self, Template, filters};
use crate::form::request_host;
use crate::store::{self, ConsoleSession, SessionToken};
use axum::extract::{FromRef, FromRequestParts};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::REFERER;
use http::request::Parts;
use http::uri::Authority;
use http::{Extensions, HeaderMap, HeaderValue, Method};
use std::sync::Arc;
use time::Duration;
use unslide_api::feature::Api;
use unslide_api::feature::Keys;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::Access;
use unslide_api::feature::site::{Permission, admit_request};
use unslide_api::problem::Problem;
use unslide_model::TenantId;

/// The cookie of a session.
const SESSION_COOKIE: BrowserCookie = BrowserCookie::for_session("unslide_console");

/// A request of a session with a key of the scope `P`, with the same [`Access`] as the key itself.
pub struct SignedIn<P> {
    /// The access of the request.
    pub access: Access<P>,
    /// The signed-in user, for the page.
    pub viewer: Viewer,
}

/// Marks a route that only deletes the tenant's own data. A suspended tenant may use it: forms have no
/// `DELETE`.
#[derive(Clone, Copy)]
pub struct TakesAway;

impl<P: Permission> FromRequestParts<Api> for SignedIn<P> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<SignedIn<P>, Response> {
        let keys = <Arc<Keys>>::from_ref(api);
        let session = match find_session(&parts.headers, &parts.extensions, &keys.storage).await {
            Ok(Some(session)) => session,
            Ok(None) => return Err(not_signed_in(parts)),
            Err(problem) => return Err(problem.into_response()),
        };
        let now = keys.storage.clock.now();
        let by = &session.principal;
        keys.uses.record_use(&by.tenant, by.key_id, by.last_used_at, now);
        let side_bar = parts.extensions.get::<SideBar>().cloned().unwrap_or_default();
        let viewer = Viewer::from_session(&session, now, side_bar.0, parts.uri.query());
        if let Some(cell) = parts.extensions.get::<ViewerCell>() {
            cell.set(viewer.clone());
        }
        let takes_away = parts.extensions.get::<TakesAway>().is_some();
        let method = if takes_away { &Method::DELETE } else { &parts.method };
        match admit_request(parts, &keys.capacity, session.principal, method) {
            Ok(access) => Ok(SignedIn { access, viewer }),
            Err(problem) => Err(problem.into_response()),
        }
    }
}

/// Returns the session of a request's cookie, if it is valid.
pub async fn find_session(
    headers: &HeaderMap,
    extensions: &Extensions,
    storage: &Storage,
) -> Result<Option<ConsoleSession>, Problem> {
    let Some(token) = find_token(headers, extensions) else { return Ok(None) };
    Ok(store::find_session(&storage.store, &token).await?)
}

/// The session of a browser, of whichever tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    /// The tenant of its key.
    pub tenant: TenantId,
    /// The hash by which it is stored. It opens nothing.
    pub hash: [u8; 32],
}

/// Returns the session of a request's cookie, if it is valid.
///
/// # Errors
/// The database fails.
pub async fn find_browser_session(
    headers: &HeaderMap,
    extensions: &Extensions,
    storage: &Storage,
) -> Result<Option<BrowserSession>, Problem> {
    let Some(token) = find_token(headers, extensions) else { return Ok(None) };
    let found = store::find_session(&storage.store, &token).await?;
    let hash = store::hash_token(&token);
    Ok(found.map(|session| BrowserSession { tenant: session.principal.tenant, hash }))
}

/// Ends a session. Returns its page after the sign-out, if it has one of its own.
///
/// # Errors
/// The database fails.
pub async fn end_browser_session(
    storage: &Storage,
    session: &BrowserSession,
) -> Result<Option<String>, Problem> {
    let mut tx = storage.tenant(&session.tenant).await?;
    let path = store::end_session(&mut tx, &session.hash).await?;
    tx.commit().await?;
    Ok(path)
}

/// Redirects to the sign-in page, with the way back. A browser sends no cookie when it follows a link of
/// another site: then the same address is requested again from a page of the console.
fn not_signed_in(parts: &Parts) -> Response {
    let here = parts.uri.path_and_query().map_or(FIRST_PAGE, |path| path.as_str());
    let back = if parts.method.is_safe() { here } else { form_page(&parts.headers).unwrap_or(FIRST_PAGE) };
    let back = if is_local(back) { back } else { FIRST_PAGE };
    let from_elsewhere = parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if from_elsewhere && parts.method.is_safe() {
        return come_again(back);
    }
    Redirect::to(&sign_in_path(back)).into_response()
}

#[derive(Template)]
#[template(path = "site/come_again.html", askama = escaping)]
struct ComeAgainPage {
    shell: Shell,
    next: String,
}

/// Returns the page that a form was sent from, without its host. `None` if that is another host than this one.
fn form_page(headers: &HeaderMap) -> Option<&str> {
    let sent = headers.get(REFERER)?.to_str().ok()?;
    let rest = sent.strip_prefix("https://").or_else(|| sent.strip_prefix("http://"))?;
    let (host, _) = rest.split_once('/')?;
    let is_own = host.parse::<Authority>().ok() == request_host(headers);
    rest.strip_prefix(host).filter(|_| is_own)
}

/// Returns the address of the sign-in page that leads back.
fn sign_in_path(back: &str) -> String {
    build_link("/console/sign-in", &[("next", Some(back).filter(|back| *back != FIRST_PAGE))])
}

/// Asks the browser to request the same page again, with its cookie.
fn come_again(next: &str) -> Response {
    let page = ComeAgainPage { shell: Shell::signed_out(), next: next.to_owned() };
    render_html(&page).into_response()
}

/// Returns the token in a request's cookie, or None if several cookies have its name: it is not known which
/// one is the visitor's.
pub fn find_token(headers: &HeaderMap, extensions: &Extensions) -> Option<SessionToken> {
    SESSION_COOKIE.read_token(headers, extensions)
}

/// Returns the `Set-Cookie` header of a new session, or of its end if there is no token.
///
/// # Errors
/// Never: the value is always valid in a header.
pub fn build_cookie(
    token: Option<&SessionToken>,
    lifetime: Duration,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<HeaderValue, Problem> {
    SESSION_COOKIE.write_header(token, lifetime, headers, extensions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::tests::headers;
    use crate::store::SESSION_LIFETIME;
    use http::header::COOKIE;
    use std::net::IpAddr;
    use unslide_api::feature::site::Peer;

    #[test]
    fn a_cookie_is_secure_and_of_its_host_unless_the_request_never_left_the_machine() {
        let secure = |peer: [u8; 4], sent: HeaderMap| {
            let mut extensions = Extensions::new();
            extensions.insert(Peer(IpAddr::from(peer)));
            let written = build_cookie(Some(&[7; 32]), SESSION_LIFETIME, &sent, &extensions).unwrap();
            let text = written.to_str().unwrap();
            let is_secure = text.ends_with("; Secure");
            assert_eq!(text.starts_with("__Host-") && text.contains("; Path=/;"), is_secure, "{text}");
            is_secure
        };
        let (near, far) = ([127, 0, 0, 1], [192, 0, 2, 1]);
        assert!(!secure(near, headers(&[("host", "127.0.0.1:8080")])));
        assert!(!secure(near, headers(&[("host", "localhost")])));
        assert!(!secure(near, headers(&[("host", "[::1]:80")])));
        assert!(secure(far, headers(&[("host", "localhost")])));
        assert!(secure(near, headers(&[("host", "crashes.example.com")])));
        assert!(secure(near, headers(&[("host", "localhost"), ("x-forwarded-proto", "https")])));
    }

    #[test]
    fn the_way_back_from_a_form_is_its_page() {
        let host = ("host", "crashes.example.com");
        let sent_from = |page| form_page(&headers(&[host, ("referer", page)])).map(str::to_owned);
        let page = "/console/groups/1?app=a";
        assert_eq!(sent_from("https://crashes.example.com/console/groups/1?app=a").as_deref(), Some(page));
        for other in
            ["https://evil.example/console", "https://crashes.example.com", "/console", "about:blank"]
        {
            assert_eq!(sent_from(other), None, "{other}");
        }
        assert_eq!(form_page(&headers(&[host])), None);
    }

    #[test]
    fn only_a_whole_token_is_read() {
        let written =
            build_cookie(Some(&[0xA7; 32]), SESSION_LIFETIME, &HeaderMap::new(), &Extensions::new()).unwrap();
        let sent: String = written.to_str().unwrap().split(';').next().unwrap().to_owned();
        let with = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::from_str(text).unwrap());
            find_token(&headers, &Extensions::new())
        };
        assert_eq!(with(&format!("a=b; {sent}")), Some([0xA7; 32]));
        for bad in [
            "",
            "__Host-unslide_console=",
            "__Host-unslide_console=zz",
            &sent.replace("__Host-", ""),
            &format!("{sent}; {sent}"),
            sent.get(..sent.len() - 1).unwrap(),
            &format!("{sent}0"),
        ] {
            assert_eq!(with(bad), None, "{bad}");
        }
    }
}
