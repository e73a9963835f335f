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
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::{Arc, LazyLock};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

const READING_PAGE: &str = include_str!("docs.html");

/// The OpenAPI document of all operations. Few processes are asked for it, so the first request renders it.
#[derive(Clone)]
pub struct OpenApiText(Arc<LazyDocument>);

type BuildDocument = Box<dyn Fn() -> serde_json::Result<Value> + Send + Sync>;

struct LazyDocument {
    build: BuildDocument,
    text: OnceCell<Bytes>,
}

impl OpenApiText {
    pub fn from_build(build: BuildDocument) -> OpenApiText {
        OpenApiText(Arc::new(LazyDocument { build, text: OnceCell::new() }))
    }

    async fn render(&self) -> Result<Bytes, Problem> {
        let rendering = async || {
            let document = self.0.clone();
            let render = move || (document.build)().map(|built| built.to_string());
            let text = spawn_blocking(render).await.map_err(Problem::internal)?;
            Ok(text.map_err(Problem::internal)?.into())
        };
        self.0.text.get_or_try_init(rendering).await.cloned()
    }
}

pub async fn get_openapi(Extension(document): Extension<OpenApiText>) -> Result<impl IntoResponse, Problem> {
    Ok(([(CONTENT_TYPE, "application/json")], document.render().await?))
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
