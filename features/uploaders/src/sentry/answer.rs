//! Answers in the form that the clients print: JSON with exactly one key `detail` for a failure.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use unslide_api::feature::intake::RequestId;
use unslide_api::problem::{Kind, Problem, Rendered};

/// The content of a successful answer.
pub enum Answer {
    /// A success without a body.
    Empty,
    /// A success with a JSON document.
    Json(Value),
}

/// An answer to one of Sentry's clients.
pub struct SentryAnswer(Response);

impl SentryAnswer {
    /// Makes the answer to a request.
    pub fn from_result(result: Result<Answer, Problem>, parts: &Parts) -> SentryAnswer {
        let request_id = parts.extensions.get::<RequestId>().map_or("", |id| id.0.as_str());
        SentryAnswer(match result {
            Ok(Answer::Empty) => StatusCode::OK.into_response(),
            Ok(Answer::Json(document)) => Json(document).into_response(),
            Err(problem) => failure_response(&problem, request_id),
        })
    }
}

impl IntoResponse for SentryAnswer {
    fn into_response(self) -> Response {
        self.0
    }
}

/// Returns the status that makes a client do the right thing: sentry-cli retries a 503 and no 429, and would retry a 507,
/// which cannot succeed.
fn failure_status(kind: Kind) -> StatusCode {
    match kind {
        Kind::SymbolQuota => StatusCode::PAYLOAD_TOO_LARGE,
        kind if kind.status() == StatusCode::TOO_MANY_REQUESTS => StatusCode::SERVICE_UNAVAILABLE,
        kind => kind.status(),
    }
}

fn failure_response(problem: &Problem, request_id: &str) -> Response {
    problem.log_fault(request_id);
    let kind = problem.kind();
    let text = if kind.status().is_server_error() && kind != Kind::SymbolQuota {
        format!("{}: the request {request_id}", kind.title())
    } else {
        problem.detail().unwrap_or_else(|| kind.title()).to_owned()
    };
    let mut response = (failure_status(kind), Json(json!({ "detail": text }))).into_response();
    if let Some(seconds) = problem.retry_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response.extensions_mut().insert(Rendered);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_shed_with_503_and_a_spent_quota_is_final() {
        let status = |kind| failure_status(kind).as_u16();
        for kind in [Kind::RateLimited, Kind::TenantBusy, Kind::Overloaded, Kind::Unavailable] {
            assert_eq!(status(kind), 503, "{kind:?}");
        }
        assert_eq!(status(Kind::SymbolQuota), 413);
        assert_eq!(status(Kind::Unauthorized), 401);
        assert_eq!(status(Kind::NotFound), 404);
    }

    #[test]
    fn a_failure_is_marked_so_that_no_layer_replaces_it() {
        let response = failure_response(&Problem::new(Kind::NotFound, "no such project"), "r");
        assert!(response.extensions().get::<Rendered>().is_some());
        assert_eq!(response.headers()["content-type"], "application/json");
    }
}
