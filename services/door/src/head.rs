//! The head of a request as the cells get it: one meaning, no header of the hop, and the client's address.

use crate::callers::Credential;
use crate::refusal::DoorRefusal;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, RANGE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use std::net::IpAddr;

/// The question to a cell, and the header of its answer that shows that it understands it.
pub const ASK_HEADER: HeaderName = HeaderName::from_static("unslide-ask");
/// The tenant in the answer of a cell.
pub const TENANT_HEADER: HeaderName = HeaderName::from_static("unslide-tenant");
/// The only question.
pub const FOR_TENANT: HeaderValue = HeaderValue::from_static("tenant");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Headers of one connection (RFC 9110 §7.6.1), beside those that `Connection` names.
const HOP_HEADERS: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The head of a request, ready to be passed on.
#[derive(Clone, Debug)]
pub struct RequestHead {
    pub method: Method,
    pub path: PathAndQuery,
    pub headers: HeaderMap,
    pub credential: Credential,
}

impl RequestHead {
    /// Reads the head of a request. `client` is the address of its client, if it is known.
    ///
    /// # Errors
    /// [`DoorRefusal::Malformed`] if two servers could read it differently.
    pub fn read(parts: &Parts, client: Option<IpAddr>) -> Result<RequestHead, DoorRefusal> {
        let path = parts.uri.path_and_query().filter(|path| path.as_str().starts_with('/'));
        let path = path.ok_or(DoorRefusal::Malformed("the request needs a path"))?.clone();
        check_host(&parts.headers, parts.version)?;
        check_length(&parts.headers)?;
        let mut headers = parts.headers.clone();
        remove_hop_headers(&mut headers);
        // The body says its length itself, and a server that waits for a word to go on gets it from the door.
        for name in [CONTENT_LENGTH, EXPECT, ASK_HEADER, TENANT_HEADER, FORWARDED_FOR] {
            headers.remove(name);
        }
        if let Some(client) = client.and_then(|client| HeaderValue::from_str(&client.to_string()).ok()) {
            headers.insert(FORWARDED_FOR, client);
        }
        let credential = Credential::from_request(&parts.method, path.as_str(), &headers);
        Ok(RequestHead { method: parts.method.clone(), path, headers, credential })
    }

    /// Returns the headers with which the cells are asked whose the request is.
    pub fn question_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        // The answer depends on nothing that a cache of the client knows.
        for name in [IF_NONE_MATCH, IF_MODIFIED_SINCE, RANGE] {
            headers.remove(name);
        }
        headers.insert(ASK_HEADER, FOR_TENANT);
        headers
    }
}

/// Removes the headers of one connection.
pub fn remove_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != HOST)
        .collect();
    for name in named.iter().chain(&HOP_HEADERS) {
        headers.remove(name);
    }
}

/// Checks that an HTTP/1.1 request names its host exactly once (RFC 9112 §3.2).
fn check_host(headers: &HeaderMap, version: Version) -> Result<(), DoorRefusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let is_valid = |host: &HeaderValue| {
        let authority = Authority::try_from(host.as_bytes());
        host.is_empty() || authority.is_ok_and(|authority| !authority.as_str().contains('@'))
    };
    match (hosts.next(), hosts.next()) {
        (None, _) if version != Version::HTTP_11 => Ok(()),
        (Some(host), None) if is_valid(host) => Ok(()),
        (None, _) => Err(DoorRefusal::Malformed("an HTTP/1.1 request needs a Host header")),
        _ => Err(DoorRefusal::Malformed("the Host header is not valid, or there are several")),
    }
}

/// Checks that the length of a body has one meaning (RFC 9112 §6).
fn check_length(headers: &HeaderMap) -> Result<(), DoorRefusal> {
    let codings: Vec<&HeaderValue> = headers.get_all(TRANSFER_ENCODING).iter().collect();
    let lengths = headers.get_all(CONTENT_LENGTH).iter().count();
    match codings[..] {
        [] if lengths <= 1 => Ok(()),
        [] => Err(DoorRefusal::Malformed("there are several Content-Length headers")),
        [coding] if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Err(DoorRefusal::Malformed("the only Transfer-Encoding is chunked"))
        }
        [_] if lengths == 0 => Ok(()),
        _ => Err(DoorRefusal::Malformed("the length of the body has several meanings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn read(uri: &str, headers: &[(&'static str, &'static str)]) -> Result<RequestHead, DoorRefusal> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        RequestHead::read(&parts, Some([192, 0, 2, 1].into()))
    }

    #[test]
    fn headers_of_the_hop_and_of_the_door_are_the_doors_own() {
        let head = read(
            "/v1/reports?limit=1",
            &[
                ("host", "crashes.example.com"),
                ("connection", "close, X-Secret, host"),
                ("x-secret", "a"),
                ("upgrade", "websocket"),
                ("expect", "100-continue"),
                ("unslide-ask", "tenant"),
                ("unslide-tenant", "umbrella"),
                ("x-forwarded-for", "10.0.0.1"),
                ("x-forwarded-proto", "https"),
                ("if-none-match", "\"a\""),
            ],
        )
        .unwrap();
        let sent: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(sent.len(), 4, "{sent:?}");
        assert_eq!(head.headers["host"], "crashes.example.com");
        assert_eq!(head.headers["x-forwarded-for"], "192.0.2.1");
        assert_eq!(head.headers["x-forwarded-proto"], "https");
        let asked = head.question_headers();
        assert_eq!(asked["unslide-ask"], "tenant");
        assert!(!asked.contains_key("if-none-match") && head.headers.contains_key("if-none-match"));
        assert_eq!(head.path, "/v1/reports?limit=1");
    }

    #[test]
    fn a_head_with_two_meanings_is_refused() {
        let host = ("host", "a");
        for headers in [
            &[][..],
            &[host, host],
            &[("host", "user@a")],
            &[host, ("content-length", "1"), ("transfer-encoding", "chunked")],
            &[host, ("content-length", "1"), ("content-length", "1")],
            &[host, ("transfer-encoding", "gzip, chunked")],
            &[host, ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
        ] {
            assert!(matches!(read("/", headers), Err(DoorRefusal::Malformed(_))), "{headers:?}");
        }
        assert!(matches!(read("*", &[host]), Err(DoorRefusal::Malformed(_))));
        read("/", &[host, ("transfer-encoding", "Chunked")]).unwrap();
        read("http://other/", &[host, ("content-length", "0")]).unwrap();
    }
}
