//! `/mcp` and `/mcp/{tenant}`: the protocol over HTTP, with the key or the token of the request. Each request has one answer and no
//! stream, so that nothing outlives them.

use crate::caller::admit_caller;
use crate::oauth::McpExtension;
use crate::oauth::service_url::{MCP_PATH, McpResource};
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body_util::Full;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::calls::OperationCalls;
use unslide_api::feature::intake::ClientAddress;
use unslide_api::feature::operation::{Api, Kind, Path, Problem};
use unslide_api::problem::Rendered;
use unslide_mcp_tools::{ApiAnswer, ApiRequest, CallApi, McpServer};
use unslide_model::{Scope, TenantId};
use unslide_store::keys::Principal;

/// The maximum size of a message in bytes.
const MESSAGE_BYTES_LIMIT: usize = 64 << 10;
/// The maximum size of an answer of the API in bytes.
const API_ANSWER_BYTES_LIMIT: usize = 4 << 20;

pub fn routes() -> Router<Api> {
    Router::new()
        .route(MCP_PATH, post(answer_message))
        .route(&format!("{MCP_PATH}/{{tenant}}"), post(answer_message_for_tenant))
}

/// The parts of the api that a message needs.
#[derive(FromRequestParts)]
#[from_request(state(Api))]
struct MessageParts {
    keys: State<Arc<Keys>>,
    mcp: McpExtension,
    calls: Extension<OperationCalls>,
}

async fn answer_message(parts: MessageParts, request: Request) -> Result<Response, Problem> {
    answer_for_resource(parts, &McpResource { tenant: None }, request).await
}

async fn answer_message_for_tenant(
    parts: MessageParts,
    Path(tenant): Path<TenantId>,
    request: Request,
) -> Result<Response, Problem> {
    answer_for_resource(parts, &McpResource { tenant: Some(tenant) }, request).await
}

/// Answers one message of a client.
///
/// # Errors
/// The key or token does not count or has no scope `reports:read`, the request comes from a page in a browser, or the message is too
/// large.
async fn answer_for_resource(
    MessageParts { keys, mcp, calls }: MessageParts,
    resource: &McpResource,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let access = admit_caller(&parts, &keys, &mcp, resource).await?;
    check_origin(&parts.headers)?;
    let body = to_bytes(body, MESSAGE_BYTES_LIMIT).await.map_err(|_| {
        Problem::new(Kind::TooLarge, format!("a message has at most {MESSAGE_BYTES_LIMIT} bytes"))
    })?;
    let may_write = access.principal.has_scope(Scope::GroupsWrite);
    let caller = InnerCaller { calls: calls.0, principal: access.principal, parts: parts.clone() };
    let server = McpServer::new(Arc::new(caller), may_write);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // The key decides, and a page in a browser is refused, so any name of the host is right.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MESSAGE_BYTES_LIMIT);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let answer = service.handle(Request::from_parts(parts, Full::new(body))).await;
    let mut answer = answer.map(Body::new);
    answer.extensions_mut().insert(Rendered);
    Ok(answer)
}

/// Refuses requests of pages in browsers, which send `Origin`: no page is a client of this route.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.contains_key(ORIGIN) {
        true => {
            Err(Problem::new(Kind::InsufficientScope, "send no Origin: pages in browsers cannot use /mcp"))
        }
        false => Ok(()),
    }
}

/// Sends requests to the operations of this process, as the sender of the message and with the address of its client.
struct InnerCaller {
    calls: OperationCalls,
    principal: Principal,
    parts: Parts,
}

impl CallApi for InnerCaller {
    fn send_request(&self, request: ApiRequest) -> ApiAnswer<'_> {
        let request = self.build_request(request);
        Box::pin(async move {
            let answer = self.calls.send_request(request?, self.principal.clone()).await;
            let status = answer.status();
            let body = to_bytes(answer.into_body(), API_ANSWER_BYTES_LIMIT).await;
            let body =
                body.map_err(|_| "The answer of the API is too large: use a smaller limit.".to_owned())?;
            let body = String::from_utf8_lossy(&body).into_owned();
            if status.is_success() { Ok(body) } else { Err(describe_problem(status, &body)) }
        })
    }
}

impl InnerCaller {
    fn build_request(&self, request: ApiRequest) -> Result<Request, String> {
        let mut built =
            http::Request::builder().method(request.method).uri(request.path).version(self.parts.version);
        if let Some(host) = self.parts.headers.get(HOST) {
            built = built.header(HOST, host);
        }
        let body = match request.body {
            Some(body) => {
                built = built.header(CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        let mut built = built.body(body).map_err(|error| format!("The request cannot be made: {error}."))?;
        if let Some(client) = self.parts.extensions.get::<ClientAddress>() {
            built.extensions_mut().insert(*client);
        }
        Ok(built)
    }
}

/// Returns the title and the detail of problem details.
fn describe_problem(status: StatusCode, body: &str) -> String {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| problem.get(name).and_then(Value::as_str).map(str::to_owned);
    let title = text("title").unwrap_or_else(|| "the API failed".to_owned());
    match text("detail") {
        Some(detail) => format!("{title} ({}): {detail}", status.as_u16()),
        None => format!("{title} ({})", status.as_u16()),
    }
}
