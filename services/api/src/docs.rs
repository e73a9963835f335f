//! The reading page: the OpenAPI document for people, with nothing loaded from elsewhere.

use axum::response::{Html, IntoResponse, Response};
use http::{HeaderValue, header};

const PAGE: &str = include_str!("docs.html");

/// Answers the page. It reads `/openapi.json` in the browser.
pub async fn page() -> Response {
    let mut response = Html(PAGE).into_response();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}
