//! Documents that are the same for everyone. Anyone may ask for them, and need not read the answer: every
//! answer has the same bytes, not a copy.

use crate::http::problem::{Kind, Problem};
use crate::state::Api;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_FRAME_OPTIONS};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

const READING_PAGE: &str = include_str!("docs.html");
/// The JSON Schemas of what the service writes into reports and about them, and of metric payloads and session events.
const SCHEMAS: [(&str, &str); 4] = [
    ("symbolication-v1.json", include_str!("../../../../docs/schema/symbolication-v1.json")),
    ("explanation-v1.json", include_str!("../../../../docs/schema/explanation-v1.json")),
    ("metrics-v1.json", include_str!("../../../../docs/schema/metrics-v1.json")),
    ("sessions-v1.json", include_str!("../../../../docs/schema/sessions-v1.json")),
];

/// `GET /openapi.json`.
pub async fn openapi(State(api): State<Api>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], api.openapi.clone())
}

/// `GET /schemas/{name}`.
pub async fn schema(Path(name): Path<String>) -> Result<impl IntoResponse, Problem> {
    let schema = SCHEMAS.iter().find(|(known, _)| *known == name);
    let (_, text) = schema.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such schema"))?;
    Ok(([(CONTENT_TYPE, "application/schema+json")], *text))
}

/// `GET /docs`: the OpenAPI document for people. It reads `/openapi.json` in the browser, and nothing from
/// elsewhere.
pub async fn reading_page() -> Response {
    let mut response = Html(READING_PAGE).into_response();
    let headers = response.headers_mut();
    if let Some(policy) = READING_POLICY.clone() {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

/// Allows the page's own script and style, by their hashes, and no other.
static READING_POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let hash = |element: &str| {
        let (_, rest) = READING_PAGE.split_once(&format!("<{element}>"))?;
        let (text, _) = rest.split_once(&format!("</{element}>"))?;
        Some(format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text))))
    };
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        hash("style")?,
        hash("script")?
    );
    HeaderValue::try_from(policy).ok()
});
