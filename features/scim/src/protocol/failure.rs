//! Failures in the form of the protocol (RFC 7644, 3.12).

use super::answer::encode_answer;
use axum::response::{IntoResponse, Response};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;
use unslide_api::problem::Problem;
use unslide_store::StoreError;

/// The schema of answers to failed requests.
const ERROR_SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:Error";

/// The reason why a request failed.
#[derive(Debug)]
pub enum ScimFailure {
    /// The request is wrong by the rules of the protocol.
    Refused { status: StatusCode, kind: Option<&'static str>, detail: String },
    /// Any other failure of the api.
    Problem(Problem),
}

impl ScimFailure {
    fn refuse(kind: &'static str, detail: impl Into<String>) -> ScimFailure {
        ScimFailure::Refused { status: StatusCode::BAD_REQUEST, kind: Some(kind), detail: detail.into() }
    }

    pub fn value(detail: impl Into<String>) -> ScimFailure {
        ScimFailure::refuse("invalidValue", detail)
    }

    pub fn syntax(detail: impl Into<String>) -> ScimFailure {
        ScimFailure::refuse("invalidSyntax", detail)
    }

    pub fn filter(detail: impl Into<String>) -> ScimFailure {
        ScimFailure::refuse("invalidFilter", detail)
    }

    pub fn path(detail: impl Into<String>) -> ScimFailure {
        ScimFailure::refuse("invalidPath", detail)
    }

    pub fn no_target(detail: impl Into<String>) -> ScimFailure {
        ScimFailure::refuse("noTarget", detail)
    }

    pub fn too_many(detail: impl Into<String>) -> ScimFailure {
        ScimFailure::refuse("tooMany", detail)
    }

    /// Another user or group has the name or the id.
    pub fn taken(detail: impl Into<String>) -> ScimFailure {
        let (status, kind) = (StatusCode::CONFLICT, Some("uniqueness"));
        ScimFailure::Refused { status, kind, detail: detail.into() }
    }

    pub fn not_found(what: &str, id: &str) -> ScimFailure {
        let id: String = id.chars().take(100).collect();
        let detail = format!("There is no {what} with the id {id}.");
        ScimFailure::Refused { status: StatusCode::NOT_FOUND, kind: None, detail }
    }

    /// Returns the status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            ScimFailure::Refused { status, .. } => *status,
            ScimFailure::Problem(problem) => problem.kind().status(),
        }
    }
}

impl From<Problem> for ScimFailure {
    fn from(problem: Problem) -> ScimFailure {
        ScimFailure::Problem(problem)
    }
}

impl From<StoreError> for ScimFailure {
    fn from(error: StoreError) -> ScimFailure {
        ScimFailure::Problem(error.into())
    }
}

impl IntoResponse for ScimFailure {
    fn into_response(self) -> Response {
        let status = self.status();
        let (kind, detail, retry) = match &self {
            ScimFailure::Refused { kind, detail, .. } => (*kind, detail.clone(), None),
            ScimFailure::Problem(problem) => {
                problem.log_fault("");
                let detail = problem.detail().unwrap_or_else(|| problem.kind().title());
                (None, detail.to_owned(), problem.retry_seconds())
            }
        };
        let mut body = json!({"schemas": [ERROR_SCHEMA], "status": status.as_str(), "detail": detail});
        if let Some(kind) = kind {
            body["scimType"] = kind.into();
        }
        let mut response = encode_answer(status, &body);
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"unslide\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        if let Some(seconds) = retry {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
