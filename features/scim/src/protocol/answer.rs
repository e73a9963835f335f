//! Answers: resources, lists and their encoding.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use unslide_api::problem::Rendered;

/// The media type of the protocol (RFC 7644, 3.1).
const SCIM_TYPE: &str = "application/scim+json";
/// The schema of pages of a list.
const LIST_SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// The answer to a request that succeeded.
#[derive(Debug)]
pub enum ScimAnswer {
    Found(Value),
    Created(Value),
    /// There is nothing to say.
    Done,
}

impl ScimAnswer {
    /// Returns a page of a list.
    pub fn list(resources: &[Value], start: u32, total: i64) -> ScimAnswer {
        ScimAnswer::Found(json!({
            "schemas": [LIST_SCHEMA],
            "totalResults": total,
            "startIndex": start,
            "itemsPerPage": resources.len(),
            "Resources": resources,
        }))
    }
}

impl IntoResponse for ScimAnswer {
    fn into_response(self) -> Response {
        match self {
            ScimAnswer::Found(body) => encode_answer(StatusCode::OK, &body),
            ScimAnswer::Created(body) => encode_answer(StatusCode::CREATED, &body),
            ScimAnswer::Done => StatusCode::NO_CONTENT.into_response(),
        }
    }
}

/// Returns a response with a body of the protocol.
pub fn encode_answer(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(SCIM_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.extensions_mut().insert(Rendered);
    response
}
