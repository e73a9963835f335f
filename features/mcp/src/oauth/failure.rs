//! Refusals in the words of OAuth, as its clients read them.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;
use unslide_api::feature::operation::Problem;
use unslide_api::problem::Rendered;
use unslide_store::StoreError;

/// A refused request of a client (RFC 6749, section 5.2).
#[derive(Debug)]
pub enum OAuthFailure {
    Refused {
        error: &'static str,
        description: String,
    },
    /// Too many requests, or a failure of the service.
    Problem(Problem),
}

impl OAuthFailure {
    pub fn new(error: &'static str, description: impl Into<String>) -> OAuthFailure {
        OAuthFailure::Refused { error, description: description.into() }
    }

    pub fn invalid_request(description: impl Into<String>) -> OAuthFailure {
        OAuthFailure::new("invalid_request", description)
    }

    /// The code or the token does not count. The text is the same whatever is wrong with it.
    pub fn invalid_grant() -> OAuthFailure {
        OAuthFailure::new("invalid_grant", "the code or token is unknown, over, used, or for another client")
    }
}

impl From<Problem> for OAuthFailure {
    fn from(problem: Problem) -> OAuthFailure {
        OAuthFailure::Problem(problem)
    }
}

impl From<StoreError> for OAuthFailure {
    fn from(error: StoreError) -> OAuthFailure {
        OAuthFailure::Problem(error.into())
    }
}

impl IntoResponse for OAuthFailure {
    fn into_response(self) -> Response {
        match self {
            OAuthFailure::Problem(problem) => problem.into_response(),
            OAuthFailure::Refused { error, description } => {
                let body = Json(json!({"error": error, "error_description": description}));
                let mut response = (StatusCode::BAD_REQUEST, body).into_response();
                response.extensions_mut().insert(Rendered);
                response
            }
        }
    }
}
