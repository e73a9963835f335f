//! Requests that the door answers itself, with problem details like those of the api.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::json;
use std::convert::Infallible;
use std::error::Error;

/// An error of a body, from either end.
pub type PassedBodyError = Box<dyn Error + Send + Sync>;

/// A body on its way through the door.
pub type PassedBody = UnsyncBoxBody<Bytes, PassedBodyError>;

/// Makes a body of bytes that are here.
pub fn full_body(bytes: impl Into<Bytes>) -> PassedBody {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// The reason why the door does not pass a request on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoorRefusal {
    /// The head of the request has two meanings, or none.
    Malformed(&'static str),
    /// The cell of the request's tenant does not answer.
    CellAway(String),
    /// No cell that answers knows the caller, and not every cell answers.
    CallerUnknown,
    /// The network of the client, or all together, ask for more callers at once than the door looks for.
    Crowded,
}

impl DoorRefusal {
    /// The word for the metric.
    pub fn reason(&self) -> &'static str {
        match self {
            DoorRefusal::Malformed(_) => "malformed",
            DoorRefusal::CellAway(_) => "cell_away",
            DoorRefusal::CallerUnknown => "caller_unknown",
            DoorRefusal::Crowded => "crowded",
        }
    }

    /// Writes the response.
    pub fn into_response(self) -> Response<PassedBody> {
        let (status, kind, title, detail) = match self {
            DoorRefusal::Malformed(detail) => {
                (StatusCode::BAD_REQUEST, "invalid-request", "The HTTP request is not valid", Some(detail))
            }
            DoorRefusal::CellAway(_) | DoorRefusal::CallerUnknown => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The service can't answer now", None)
            }
            DoorRefusal::Crowded => (
                StatusCode::SERVICE_UNAVAILABLE,
                "overloaded",
                "Too many requests at once",
                Some("Too many requests of unknown callers from one address"),
            ),
        };
        let mut body =
            json!({ "type": format!("/problems/{kind}"), "title": title, "status": status.as_u16() });
        if let Some(detail) = detail {
            body["detail"] = detail.into();
        }
        let mut response = Response::new(full_body(body.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_refusal_is_a_problem_that_names_no_cell() {
        for (refusal, status, retry) in [
            (DoorRefusal::Malformed("several Host headers"), 400, None),
            (DoorRefusal::CellAway("eu".to_owned()), 503, Some("2")),
            (DoorRefusal::CallerUnknown, 503, Some("2")),
            (DoorRefusal::Crowded, 503, Some("2")),
        ] {
            let response = refusal.into_response();
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers().get("retry-after").map(|v| v.to_str().unwrap()), retry);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["status"], status);
            assert!(!body.to_string().contains("eu\""), "{body}");
        }
    }
}
