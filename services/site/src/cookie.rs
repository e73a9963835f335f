//! Cookies, each of one host, most of them with 256 random bits.

use crate::form::request_host;
use axum::extract::FromRequestParts;
use http::header::COOKIE;
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue};
use std::borrow::Cow;
use std::convert::Infallible;
use std::net::IpAddr;
use time::Duration;
use unslide_api::entropy::{read_token, write_token};
use unslide_api::feature::Api;
use unslide_api::feature::site::Peer;
use unslide_api::problem::Problem;

/// Headers of a request and what the server knows of its connection.
pub struct RequestOrigin {
    pub headers: HeaderMap,
    pub extensions: Extensions,
}

impl RequestOrigin {
    /// Returns true if the browser would drop the console's cookies, because the page came over plain HTTP.
    #[must_use]
    pub fn needs_https(&self) -> bool {
        needs_https(&self.headers)
    }
}

impl FromRequestParts<Api> for RequestOrigin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<RequestOrigin, Infallible> {
        Ok(RequestOrigin { headers: parts.headers.clone(), extensions: parts.extensions.clone() })
    }
}

/// A cookie of the console. Over HTTPS its name begins with `__Host-`: a browser takes it only from the host itself, so that
/// no other host of the site can plant one. Browsers refuse such a name without TLS, as on this machine.
pub struct BrowserCookie {
    name: Cow<'static, str>,
    same_site: &'static str,
}

impl BrowserCookie {
    /// Makes a cookie that browsers send to requests of the console's own pages only.
    #[must_use]
    pub const fn for_session(name: &'static str) -> BrowserCookie {
        BrowserCookie { name: Cow::Borrowed(name), same_site: "Strict" }
    }

    /// Makes a cookie that browsers also send when another site leads to the console.
    #[must_use]
    pub const fn for_navigation(name: &'static str) -> BrowserCookie {
        BrowserCookie { name: Cow::Borrowed(name), same_site: "Lax" }
    }

    /// Returns one of several cookies with names that begin alike.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> BrowserCookie {
        BrowserCookie { name: Cow::Owned(format!("{}_{suffix}", self.name)), same_site: self.same_site }
    }

    /// Returns the suffixes of a request's cookies with names that begin with this one's. The oldest is the first, as
    /// browsers send them.
    #[must_use]
    pub fn list_suffixes(&self, origin: &RequestOrigin) -> Vec<String> {
        let start = format!("{}_", self.full_name(&origin.headers, &origin.extensions));
        let names = cookie_pairs(&origin.headers).filter_map(|(name, _)| name.strip_prefix(&start));
        names.map(str::to_owned).collect()
    }

    /// Returns the text in a request's cookie; None if several cookies have its name.
    #[must_use]
    pub fn find_text<'o>(&self, origin: &'o RequestOrigin) -> Option<&'o str> {
        self.read_text(&origin.headers, &origin.extensions)
    }

    /// Returns the `Set-Cookie` header with a text, or of the cookie's end if it is empty. The text has only characters
    /// that need no quotes in a cookie.
    ///
    /// # Errors
    /// The text has a character that no header may have.
    pub fn build_text_header(
        &self,
        text: &str,
        lifetime: Duration,
        origin: &RequestOrigin,
    ) -> Result<HeaderValue, Problem> {
        self.write_text(text, lifetime, &origin.headers, &origin.extensions)
    }

    fn full_name(&self, headers: &HeaderMap, extensions: &Extensions) -> String {
        let prefix = if is_loopback(headers, extensions) { "" } else { "__Host-" };
        format!("{prefix}{}", self.name)
    }

    /// Returns the token in a request's cookie; None if several cookies have its name: it is not known which one is the
    /// visitor's.
    #[must_use]
    pub fn find_token(&self, origin: &RequestOrigin) -> Option<[u8; 32]> {
        self.read_token(&origin.headers, &origin.extensions)
    }

    pub(crate) fn read_token(&self, headers: &HeaderMap, extensions: &Extensions) -> Option<[u8; 32]> {
        read_token(self.read_text(headers, extensions)?)
    }

    fn read_text<'h>(&self, headers: &'h HeaderMap, extensions: &Extensions) -> Option<&'h str> {
        let name = self.full_name(headers, extensions);
        let mut own = cookie_pairs(headers).filter(|(named, _)| *named == name);
        let (Some((_, text)), None) = (own.next(), own.next()) else { return None };
        Some(text)
    }

    /// Returns the `Set-Cookie` header with a token, or of the cookie's end if there is no token.
    ///
    /// # Errors
    /// Never: the value is always valid in a header.
    pub fn build_header(
        &self,
        token: Option<&[u8; 32]>,
        lifetime: Duration,
        origin: &RequestOrigin,
    ) -> Result<HeaderValue, Problem> {
        self.write_header(token, lifetime, &origin.headers, &origin.extensions)
    }

    pub(crate) fn write_header(
        &self,
        token: Option<&[u8; 32]>,
        lifetime: Duration,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<HeaderValue, Problem> {
        self.write_text(&token.map(write_token).unwrap_or_default(), lifetime, headers, extensions)
    }

    fn write_text(
        &self,
        value: &str,
        lifetime: Duration,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<HeaderValue, Problem> {
        let age = if value.is_empty() { 0 } else { lifetime.whole_seconds() };
        let (path, secure) =
            if is_loopback(headers, extensions) { ("/console", "") } else { ("/", "; Secure") };
        let (name, same_site) = (self.full_name(headers, extensions), self.same_site);
        let text =
            format!("{name}={value}; Path={path}; HttpOnly; SameSite={same_site}; Max-Age={age}{secure}");
        HeaderValue::try_from(text).map_err(Problem::internal)
    }
}

/// Returns the names and values of a request's cookies.
fn cookie_pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// Headers by which proxies describe the client's connection.
const PROXIED: [&str; 3] = ["x-forwarded-proto", "x-forwarded-for", "forwarded"];

/// Returns true for a request over plain HTTP that never left this machine.
pub fn is_loopback(headers: &HeaderMap, extensions: &Extensions) -> bool {
    let near = extensions.get::<Peer>().is_some_and(|peer| peer.0.to_canonical().is_loopback());
    near && names_loopback(headers) && !PROXIED.iter().any(|name| headers.contains_key(*name))
}

/// Returns true if the request names this machine as its host.
fn names_loopback(headers: &HeaderMap) -> bool {
    let host = request_host(headers).map(|authority| authority.host().trim_matches(['[', ']']).to_owned());
    host.is_some_and(|host| {
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// Returns true if the browser seems to use plain HTTP from another machine. Such a browser would not keep
/// the session's cookie.
pub fn needs_https(headers: &HeaderMap) -> bool {
    let is =
        |name: &str, test: fn(&str) -> bool| headers.get(name).map(|value| value.to_str().is_ok_and(test));
    if names_loopback(headers) {
        return false;
    }
    // Forms send the origin of their page, and only pages over HTTPS get Sec-Fetch-Site.
    let origin = is("origin", |origin| origin != "null").unwrap_or(false);
    if origin {
        return is("origin", |origin| origin.starts_with("http://")).unwrap_or(false);
    }
    if headers.contains_key("sec-fetch-site") {
        return false;
    }
    is("x-forwarded-proto", |protocol| protocol.eq_ignore_ascii_case("http"))
        .unwrap_or_else(|| !PROXIED.iter().any(|name| headers.contains_key(*name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::tests::headers;

    #[test]
    fn a_cookie_for_navigation_is_of_its_host_and_for_links_from_other_sites() {
        let cookie = BrowserCookie::for_navigation("unslide_test");
        let mut origin = RequestOrigin { headers: HeaderMap::new(), extensions: Extensions::new() };
        let header = cookie.build_header(Some(&[7; 32]), Duration::MINUTE, &origin).unwrap();
        let text = header.to_str().unwrap().to_owned();
        assert!(text.starts_with("__Host-unslide_test="), "{text}");
        assert!(text.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure"), "{text}");
        let pair = text.split(';').next().unwrap();
        origin.headers.insert(COOKIE, HeaderValue::from_str(pair).unwrap());
        assert_eq!(cookie.find_token(&origin), Some([7; 32]));
        origin.headers.append(COOKIE, HeaderValue::from_str(pair).unwrap());
        assert_eq!(cookie.find_token(&origin), None, "another host of the site may have planted one");
    }

    #[test]
    fn cookies_with_a_suffix_are_told_apart_and_hold_a_text() {
        let cookie = BrowserCookie::for_navigation("unslide_test");
        let mut origin = RequestOrigin { headers: HeaderMap::new(), extensions: Extensions::new() };
        let header = cookie.with_suffix("b1").build_text_header("a.b-c", Duration::MINUTE, &origin).unwrap();
        assert!(header.to_str().unwrap().starts_with("__Host-unslide_test_b1=a.b-c; "), "{header:?}");
        let over = cookie.with_suffix("b1").build_text_header("", Duration::MINUTE, &origin).unwrap();
        assert!(over.to_str().unwrap().contains("Max-Age=0"), "{over:?}");
        let sent = "other=1; __Host-unslide_test_b1=a.b-c; __Host-unslide_test_b2=d; unslide_test_b3=e";
        origin.headers.insert(COOKIE, HeaderValue::from_static(sent));
        assert_eq!(cookie.list_suffixes(&origin), ["b1", "b2"]);
        assert_eq!(cookie.with_suffix("b1").find_text(&origin), Some("a.b-c"));
        assert_eq!(cookie.find_text(&origin), None);
    }

    #[test]
    fn a_page_over_plain_http_from_another_machine_needs_https() {
        let host = ("host", "crashes.example.com:8080");
        for (needed, sent) in [
            (true, headers(&[host])),
            (true, headers(&[host, ("origin", "http://crashes.example.com:8080")])),
            (true, headers(&[host, ("origin", "null")])),
            (true, headers(&[host, ("x-forwarded-proto", "http")])),
            (false, headers(&[host, ("origin", "https://crashes.example.com:8080")])),
            (false, headers(&[host, ("x-forwarded-proto", "https")])),
            (false, headers(&[host, ("x-forwarded-for", "192.0.2.1")])),
            (false, headers(&[host, ("sec-fetch-site", "none")])),
            (false, headers(&[("host", "localhost:8080")])),
            (false, headers(&[("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080")])),
            (false, headers(&[("host", "[::1]:8080")])),
        ] {
            assert_eq!(needs_https(&sent), needed, "{sent:?}");
        }
    }
}
