//! Answers in the form that the client prints: `type`, `code`, `detail` and `attr` for a failure.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use unslide_api::feature::intake::RequestId;
use unslide_api::problem::{Kind, Problem, Rendered};

/// An answer in the form that `posthog-cli` reads.
pub struct PosthogAnswer(Response);

impl PosthogAnswer {
    /// Makes the answer to a request.
    pub fn from_result(result: Result<Value, Problem>, parts: &Parts) -> PosthogAnswer {
        let request_id = parts.extensions.get::<RequestId>().map_or("", |id| id.0.as_str());
        PosthogAnswer(match result {
            Ok(document) => Json(document).into_response(),
            Err(problem) => failure_response(&problem, request_id),
        })
    }
}

impl IntoResponse for PosthogAnswer {
    fn into_response(self) -> Response {
        self.0
    }
}

fn failure_response(problem: &Problem, request_id: &str) -> Response {
    problem.log_fault(request_id);
    let kind = problem.kind();
    let is_fault = kind.status().is_server_error() && kind != Kind::SymbolQuota;
    let detail = problem.detail().filter(|_| !is_fault).unwrap_or_else(|| kind.title());
    let status = if kind == Kind::SymbolQuota { StatusCode::PAYLOAD_TOO_LARGE } else { kind.status() };
    let group = if is_fault { "server_error" } else { "validation_error" };
    let body = json!({ "type": group, "code": kind.slug(), "detail": detail, "attr": null });
    let mut response = (status, Json(body)).into_response();
    if let Some(seconds) = problem.retry_seconds() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response.extensions_mut().insert(Rendered);
    response
}
