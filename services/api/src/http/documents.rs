//! Public documents that are the same for everyone. All responses share the same bytes, so that a client that
//! does not read its response costs no memory.

use crate::openapi::self_contained::find_published;
use crate::problem::{Kind, Problem};
use axum::Extension;
use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_FRAME_OPTIONS};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

const READING_PAGE: &str = include_str!("docs.html");

/// The OpenAPI document of all operations.
#[derive(Clone)]
pub struct OpenApiText(pub Bytes);

pub async fn get_openapi(Extension(text): Extension<OpenApiText>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], text.0)
}

pub async fn get_schema(Path(name): Path<String>) -> Result<impl IntoResponse, Problem> {
    let text =
        find_published(&name).ok_or_else(|| Problem::new(Kind::NotFound, "there is no such schema"))?;
    Ok(([(CONTENT_TYPE, "application/schema+json")], text))
}

/// `GET /docs`: the OpenAPI document for people. The page reads `/openapi.json` in the browser, and loads
/// nothing from other hosts.
pub async fn reading_page() -> Response {
    let mut response = Html(READING_PAGE).into_response();
    let headers = response.headers_mut();
    if let Some(policy) = READING_POLICY.clone() {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

/// Allows only the page's own script and style, by their hashes.
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
