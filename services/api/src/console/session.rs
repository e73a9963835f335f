//! The cookie of a session, and what a request may do that has one.

use super::form::host;
use super::link::{is_local, link};
use super::shell::{Shell, html};
use super::viewer::{Viewer, ViewerCell};
use crate::console::escaping::{self, Template, filters};
use crate::http::problem::Problem;
use crate::http::server::Peer;
use crate::requests::access::{Access, Permission, admit};
use crate::state::Api;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::COOKIE;
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, Method};
use std::net::IpAddr;
use unslide_store::console_sessions::{self, ConsoleSession, LASTS, SessionToken};

const NAME: &str = "unslide_console";

/// A request of a session with a key of the scope `P`: the same [`Access`] that the key itself would have.
pub struct SignedIn<P> {
    /// What the request may do.
    pub access: Access<P>,
    /// Who is shown as signed in.
    pub viewer: Viewer,
}

/// Says of a route that it only takes away what is the tenant's own, which a suspended tenant may do, too: forms
/// know no `DELETE`.
#[derive(Clone, Copy)]
pub struct TakesAway;

impl<P: Permission> FromRequestParts<Api> for SignedIn<P> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<SignedIn<P>, Response> {
        let session = match find(&parts.headers, api).await {
            Ok(Some(session)) => session,
            Ok(None) => return Err(not_signed_in(parts)),
            Err(problem) => return Err(problem.into_response()),
        };
        let now = api.clock.now();
        api.key_uses.note(&session.principal, now);
        let viewer = Viewer::of(&session, now);
        if let Some(cell) = parts.extensions.get::<ViewerCell>() {
            cell.set(viewer.clone());
        }
        let takes_away = parts.extensions.get::<TakesAway>().is_some();
        let method = if takes_away { &Method::DELETE } else { &parts.method };
        match admit(parts, api, session.principal, method) {
            Ok(access) => Ok(SignedIn { access, viewer }),
            Err(problem) => Err(problem.into_response()),
        }
    }
}

/// The session of a request's cookie, if it is in force.
pub async fn find(headers: &HeaderMap, api: &Api) -> Result<Option<ConsoleSession>, Problem> {
    let Some(token) = token(headers) else { return Ok(None) };
    Ok(console_sessions::find(&api.store, &token).await?)
}

/// The way to the sign-in page and back. A browser sends no cookie along a link of another site: then the same
/// address is asked for once more, from here.
fn not_signed_in(parts: &Parts) -> Response {
    let here = parts.uri.path_and_query().map_or("/console", |path| path.as_str());
    let back = if parts.method.is_safe() && is_local(here) { here } else { "/console" };
    let from_elsewhere = parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if from_elsewhere && parts.method.is_safe() {
        return come_again(back);
    }
    Redirect::to(&path(back)).into_response()
}

#[derive(Template)]
#[template(path = "console/come_again.html", askama = escaping)]
struct ComeAgainPage {
    shell: Shell,
    next: String,
}

/// The address of the sign-in page that leads back.
fn path(back: &str) -> String {
    link("/console/sign-in", &[("next", Some(back).filter(|back| *back != "/console"))])
}

/// Asks the browser for the same page once more, with its cookie.
fn come_again(next: &str) -> Response {
    let page = ComeAgainPage { shell: Shell::signed_out(), next: next.to_owned() };
    html(&page).into_response()
}

/// What a request's cookie holds.
pub fn token(headers: &HeaderMap) -> Option<SessionToken> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, text) = pairs.find(|(name, _)| *name == NAME)?;
    let mut token = SessionToken::default();
    if text.len() != 2 * token.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in token.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(token)
}

/// The `Set-Cookie` of a new session; of its end where there is no token.
///
/// # Errors
/// Never: what is written is fit for a header.
pub fn cookie(
    token: Option<&SessionToken>,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<HeaderValue, Problem> {
    let value: String =
        token.iter().flat_map(|token| token.iter()).map(|byte| format!("{byte:02x}")).collect();
    let age = token.map_or(0, |_| LASTS.whole_seconds());
    let secure = if is_loopback(headers, extensions) { "" } else { "; Secure" };
    let text = format!("{NAME}={value}; Path=/console; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
    HeaderValue::try_from(text).map_err(Problem::internal)
}

/// True for a request over plain HTTP that never left this machine.
fn is_loopback(headers: &HeaderMap, extensions: &Extensions) -> bool {
    let proxied = ["x-forwarded-proto", "x-forwarded-for", "forwarded"];
    let near = extensions.get::<Peer>().is_some_and(|peer| peer.0.to_canonical().is_loopback());
    let host = host(headers).map(|authority| authority.host().trim_matches(['[', ']']).to_owned());
    let named = host.is_some_and(|host| {
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    });
    near && named && !proxied.iter().any(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::form::tests::headers;

    #[test]
    fn a_cookie_is_secure_unless_the_request_never_left_the_machine() {
        let secure = |peer: [u8; 4], sent: HeaderMap| {
            let mut extensions = Extensions::new();
            extensions.insert(Peer(IpAddr::from(peer)));
            cookie(Some(&[7; 32]), &sent, &extensions).unwrap().to_str().unwrap().ends_with("; Secure")
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
    fn only_a_whole_token_is_read() {
        let written = cookie(Some(&[0xA7; 32]), &HeaderMap::new(), &Extensions::new()).unwrap();
        let sent: String = written.to_str().unwrap().split(';').next().unwrap().to_owned();
        let with = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::from_str(text).unwrap());
            token(&headers)
        };
        assert_eq!(with(&format!("a=b; {sent}")), Some([0xA7; 32]));
        for bad in
            ["", "unslide_console=", "unslide_console=zz", &sent[..sent.len() - 1], &format!("{sent}0")]
        {
            assert_eq!(with(bad), None, "{bad}");
        }
    }
}
