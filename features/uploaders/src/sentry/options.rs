//! Routes that a client asks before it uploads: sizes, its organisation, its account.

use super::answer::{Answer, SentryAnswer};
use super::{SentryRoutes, sign_in};
use crate::origin::own_origin;
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::http::header::USER_AGENT;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::Problem;
use unslide_api::feature::upload::UploadQuota;

/// The most bytes of a chunk, before it is packed.
pub const MAX_CHUNK_BYTES: u64 = 8 << 20;
/// The most chunks that a client puts in one request.
pub const MAX_REQUEST_CHUNKS: usize = 64;
/// The bytes of chunks that a client puts in one request, before they are packed.
pub const MAX_REQUEST_BYTES: u64 = 32 << 20;
/// Requests with chunks that a client sends at the same time.
const CLIENT_CONCURRENCY: u8 = 4;
/// The kinds of files that a client may send. sentry-cli 2 uses older routes without the first, and for source maps
/// without the last three.
const ACCEPTED_KINDS: [&str; 5] =
    ["debug_files", "sources", "release_files", "artifact_bundles", "artifact_bundles_v2"];

/// `GET /api/0/organizations/{org}/chunk-upload/`: sizes and the URL for chunks.
pub async fn get_options(
    State(keys): State<Arc<Keys>>,
    Extension(routes): Extension<Arc<SentryRoutes>>,
    Path(org): Path<String>,
    request: Request,
) -> SentryAnswer {
    let (parts, _) = request.into_parts();
    let options = async {
        let access = sign_in(&keys, &parts, Some(&org)).await?;
        let path = format!("/api/0/organizations/{}/chunk-upload/", access.tenant());
        Ok(Answer::Json(json!({
            "url": upload_url(&routes, &parts.headers, &path)?,
            "chunkSize": MAX_CHUNK_BYTES,
            "chunksPerRequest": MAX_REQUEST_CHUNKS,
            "maxRequestSize": MAX_REQUEST_BYTES,
            "maxFileSize": UploadQuota::from_access(&keys.capacity, &access).bytes,
            "concurrency": CLIENT_CONCURRENCY,
            "hashAlgorithm": "sha1",
            "compression": ["gzip"],
            "accept": ACCEPTED_KINDS,
        })))
    };
    SentryAnswer::from_result(options.await, &parts)
}

/// `GET /api/0/organizations/{org}/`: the tenant and the origin of the server.
pub async fn get_organization(
    State(keys): State<Arc<Keys>>,
    Extension(routes): Extension<Arc<SentryRoutes>>,
    Path(org): Path<String>,
    request: Request,
) -> SentryAnswer {
    let (parts, _) = request.into_parts();
    let organization = async {
        let access = sign_in(&keys, &parts, Some(&org)).await?;
        let (slug, origin) = (access.tenant(), own_origin(&routes.public_url, &parts.headers)?);
        let links = json!({ "organizationUrl": origin, "regionUrl": origin });
        Ok(Answer::Json(json!({ "id": slug, "slug": slug, "name": slug, "links": links })))
    };
    SentryAnswer::from_result(organization.await, &parts)
}

/// `GET /api/0/`: the key and its tenant, for `sentry-cli info`.
pub async fn get_account(State(keys): State<Arc<Keys>>, request: Request) -> SentryAnswer {
    let (parts, _) = request.into_parts();
    let account = async {
        let access = sign_in(&keys, &parts, None).await?;
        let user = json!({ "id": access.principal.key_id, "email": access.tenant() });
        Ok(Answer::Json(json!({ "version": "0", "auth": { "scopes": ["project:write"] }, "user": user })))
    };
    SentryAnswer::from_result(account.await, &parts)
}

/// Returns the URL for chunks. A client sends its token to it, so it is always on this server: sentry-cli gets a path,
/// other clients need a whole URL.
fn upload_url(routes: &SentryRoutes, headers: &HeaderMap, path: &str) -> Result<String, Problem> {
    if takes_relative_urls(headers) {
        return Ok(path.to_owned());
    }
    Ok(format!("{}{path}", own_origin(&routes.public_url, headers)?))
}

/// Returns true for sentry-cli from version 1 on. `sentry` calls itself sentry-cli/0.
fn takes_relative_urls(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    agent.strip_prefix("sentry-cli/").is_some_and(|version| !version.starts_with("0."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(values: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        values.iter().map(header).collect()
    }

    fn url(public_url: &str, values: &[(&'static str, &'static str)]) -> Option<String> {
        let routes = SentryRoutes { public_url: public_url.to_owned() };
        upload_url(&routes, &headers(values), "/p/").ok()
    }

    #[test]
    fn chunks_go_to_the_server_that_was_asked() {
        let public = "https://crashes.example.com";
        let own = ("host", "crashes.example.com");
        assert_eq!(url(public, &[own]).as_deref(), Some("https://crashes.example.com/p/"));
        assert_eq!(url("", &[("host", "127.0.0.1:80")]).as_deref(), Some("http://127.0.0.1:80/p/"));
        let proxied = [("host", "other.example.com"), ("x-forwarded-proto", "https")];
        assert_eq!(url(public, &proxied).as_deref(), Some("https://other.example.com/p/"));
        assert_eq!(url("", &[("host", "a"), ("x-forwarded-proto", "ftp")]).as_deref(), Some("http://a/p/"));
        assert_eq!(url("", &[]), None);
    }

    #[test]
    fn only_sentry_cli_reads_a_path() {
        for (agent, expected) in [
            ("sentry-cli/3.8.2", "/p/"),
            ("sentry-cli/2.58.6", "/p/"),
            ("sentry-cli/0.49.0 (linux-x64) node/20.20.2", "http://a/p/"),
            ("curl/8", "http://a/p/"),
        ] {
            assert_eq!(
                url("", &[("host", "a"), ("user-agent", agent)]).as_deref(),
                Some(expected),
                "{agent}"
            );
        }
    }
}
