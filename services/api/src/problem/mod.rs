//! Failures of requests, and their conversion to HTTP.
//!
//! A failure is answered with RFC 9457 problem details. Its `type` is the path of a page that explains it and
//! never changes, so clients compare it; `title` and `detail` are for people. Causes inside the service never
//! reach the response: a 5xx body has only the request's id, and the log has the cause under that id.

mod documented;
mod dropped_body;
mod kind;
pub(crate) mod pages;

pub use documented::{documented, problems};
pub use dropped_body::DroppedBody;
pub use kind::Kind;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::format_causes;
use unslide_store::queries::reports::ReportRow;
use utoipa::ToSchema;

/// The media type of a problem (RFC 9457 §3).
pub const MEDIA_TYPE: &str = "application/problem+json";
/// Seconds of `Retry-After` if the failure itself names no time.
const RETRY_AFTER: u32 = 5;

/// Problem details of a failed request (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem, example = json!({
    "type": "/problems/not-found", "title": "There is no such resource", "status": 404,
    "detail": "there is no such upload", "request_id": "8b2ad1b7c0ffee42"
}))]
pub struct ProblemDetails<'a> {
    /// Kind of the failure: the path of its page in the documentation, which never changes.
    #[serde(rename = "type")]
    #[schema(format = "uri-reference")]
    pub kind: String,
    /// The kind's title, for people.
    pub title: &'a str,
    /// The HTTP status code of the response.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// Description of this failure, for people; absent if the title says all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'a str>,
    /// The request's id, also in the `x-request-id` header and in the service's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<&'a str>,
    /// The stored report, if only its body is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<&'a ReportRow>,
}

/// A failed request, before it is converted to a response.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: Kind,
    detail: Option<String>,
    retry_after: Option<u32>,
    challenge: Option<HeaderValue>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
    dropped_body: Option<Arc<DroppedBody>>,
}

impl Problem {
    /// Creates a problem without a detail.
    #[must_use]
    pub fn from_kind(kind: Kind) -> Problem {
        Problem { kind, detail: None, retry_after: None, challenge: None, cause: None, dropped_body: None }
    }

    /// Creates a problem with a detail for the client about this request.
    #[must_use]
    pub fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        Problem { detail: Some(detail.into()), ..Problem::from_kind(kind) }
    }

    /// Creates a problem for a fault of the service. The cause goes to the log, never to the client.
    pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Problem {
        Problem { cause: Some(into_shared(cause)), ..Problem::from_kind(Kind::Internal) }
    }

    /// Creates a problem for a server that does not answer at the moment: 503 with `Retry-After` of
    /// `seconds`.
    pub fn unavailable(cause: impl Into<Box<dyn Error + Send + Sync>>, seconds: u32) -> Problem {
        Problem {
            cause: Some(into_shared(cause)),
            retry_after: Some(seconds),
            ..Problem::from_kind(Kind::Unavailable)
        }
    }

    /// Creates a problem for a body that took more than `limit`.
    #[must_use]
    pub fn body_timeout(limit: Duration) -> Problem {
        Problem::new(Kind::BodyTimeout, format!("the body took more than {} s", limit.as_secs()))
    }

    /// Returns the problem among the causes of an error.
    #[must_use]
    pub fn find_in_causes(error: &(dyn Error + 'static)) -> Option<Problem> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(problem) = error.downcast_ref::<Problem>() {
                return Some(problem.clone());
            }
            cause = error.source();
        }
        None
    }

    /// Sets a `Retry-After` of `seconds`.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Problem {
        Problem { retry_after: Some(seconds), ..self }
    }

    /// Sets the `WWW-Authenticate` of the response: how a client gets access.
    #[must_use]
    pub fn with_challenge(self, challenge: HeaderValue) -> Problem {
        Problem { challenge: Some(challenge), ..self }
    }

    /// Creates a problem for a report of which the body was dropped. It has the report's row.
    #[must_use]
    pub fn for_dropped_body(dropped: DroppedBody) -> Problem {
        let problem = Problem::new(Kind::BodyNotKept, dropped.to_string());
        Problem { dropped_body: Some(Arc::new(dropped)), ..problem }
    }

    /// Returns the report of which the body was dropped.
    #[must_use]
    pub fn dropped_body(&self) -> Option<&DroppedBody> {
        self.dropped_body.as_deref()
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the text for the client, if any.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Returns the seconds of `Retry-After`, if the request may be sent again.
    #[must_use]
    pub fn retry_seconds(&self) -> Option<u32> {
        self.retry_after.or(self.kind.is_retriable().then_some(RETRY_AFTER))
    }

    /// Writes the response, and a log entry if the fault is the service's.
    fn to_response(&self, request_id: &str) -> Response {
        let status = self.kind.status();
        self.log_fault(request_id);
        let text = self.encode_body(Some(request_id));
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let for_keys = HeaderValue::from_static("Bearer realm=\"unslide\"");
        let for_keys = (status == StatusCode::UNAUTHORIZED).then_some(for_keys);
        if let Some(challenge) = self.challenge.clone().or(for_keys) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = self.retry_seconds() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// Writes the body of the response.
    pub(crate) fn encode_body(&self, request_id: Option<&str>) -> Vec<u8> {
        let body = ProblemDetails {
            kind: self.kind.uri(),
            title: self.kind.title(),
            status: self.kind.status().as_u16(),
            detail: self.detail.as_deref(),
            request_id,
            report: self.dropped_body.as_deref().map(|dropped| &dropped.listed),
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    /// Writes a log entry if the fault is the service's.
    pub fn log_fault(&self, request_id: &str) {
        if self.kind.status().is_server_error() && self.kind != Kind::SymbolQuota {
            self.log_cause(request_id);
        }
    }

    fn log_cause(&self, request_id: &str) {
        let cause = self.cause.as_ref().map(|cause| format_causes(cause.as_ref())).unwrap_or_default();
        let problem = self.kind.slug();
        if self.kind == Kind::Internal {
            tracing::error!(
                request.id = request_id,
                problem,
                error = cause,
                "a request failed inside the service"
            );
        } else {
            tracing::warn!(
                request.id = request_id,
                problem,
                error = cause,
                "a request could not be served for now"
            );
        }
    }
}

/// Lets a problem pass through readers and streams as an error, and be extracted at the other end.
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.detail().unwrap_or_else(|| self.kind.title()))
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| cause.as_ref() as &(dyn Error + 'static))
    }
}

fn into_shared(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Arc<dyn Error + Send + Sync> {
    let cause: Box<dyn Error + Send + Sync> = cause.into();
    cause.into()
}

impl From<unslide_store::StoreError> for Problem {
    fn from(error: unslide_store::StoreError) -> Problem {
        if matches!(error, unslide_store::StoreError::TenantDeleted) {
            // Responds as for any key of a deleted tenant: this key was checked shortly before the deletion.
            return Problem::from_kind(Kind::Unauthorized);
        }
        if matches!(error, unslide_store::StoreError::TenantMoving) {
            return Problem::unavailable(error, 1);
        }
        if matches!(error, unslide_store::StoreError::TooManyKeys { .. }) {
            return Problem::new(Kind::LimitReached, error.to_string());
        }
        if error.is_retriable() { Problem::unavailable(error, 2) } else { Problem::internal(error) }
    }
}

impl From<unslide_artifacts::StorageError> for Problem {
    fn from(error: unslide_artifacts::StorageError) -> Problem {
        use unslide_artifacts::StorageError;
        match error {
            StorageError::TooLarge { limit, .. } => {
                Problem::new(Kind::TooLarge, format!("the file has more than {limit} bytes"))
            }
            // The bytes came from the client: the error inside says what is wrong with them.
            StorageError::Source(source) => source.downcast().unwrap_or_else(|_| {
                Problem::new(Kind::IncompleteBody, "the body could not be read to its end")
            }),
            error if error.is_transient() || error.is_operators_fault() => Problem::unavailable(error, 5),
            error => Problem::internal(error),
        }
    }
}

impl From<unslide_stream::StreamError> for Problem {
    fn from(error: unslide_stream::StreamError) -> Problem {
        use unslide_stream::StreamError;
        match error {
            StreamError::TooLarge { bytes, .. } => Problem::new(
                Kind::TooLarge,
                format!("the report has {bytes} bytes, more than its topic takes"),
            ),
            // Kafka is away, or refuses the login or a topic: the same request succeeds once that is mended.
            error => Problem::unavailable(error, 5),
        }
    }
}

impl From<unslide_runtime::CpuError> for Problem {
    fn from(error: unslide_runtime::CpuError) -> Problem {
        Problem::internal(error)
    }
}

/// Puts the problem into the response's extensions. [`render_problem`], which knows the request's id, writes the
/// body.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.kind.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Marks a failed response that already has a page as its body.
#[derive(Clone, Copy, Debug)]
pub struct Rendered;

/// Adds the problem body to a failed response. The framework's own errors (no such path or method) become
/// problems too. Any other response is unchanged.
pub fn render_problem(response: Response, request_id: &str) -> Response {
    if response.extensions().get::<Rendered>().is_some() {
        return response;
    }
    if let Some(problem) = response.extensions().get::<Problem>() {
        return problem.to_response(request_id);
    }
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let mut rendered = Problem::from_kind(Kind::from_status(status)).to_response(request_id);
    if let Some(allow) = response.headers().get(header::ALLOW) {
        rendered.headers_mut().insert(header::ALLOW, allow.clone());
    }
    rendered
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use http_body_util::BodyExt;

    async fn json(response: Response) -> serde_json::Value {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn a_fault_of_the_service_says_nothing_but_its_id() {
        let secret = std::io::Error::other("password for postgres://user:hunter2@db is wrong");
        let response = render_problem(Problem::internal(secret).into_response(), "abc123");
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["content-type"], MEDIA_TYPE);
        let body = json(response).await;
        assert_eq!(
            body,
            serde_json::json!({"type": "/problems/internal", "title": "Internal error",
                "status": 500, "request_id": "abc123"})
        );
    }

    #[tokio::test]
    async fn a_bare_error_status_becomes_a_problem_and_success_does_not() {
        let response = render_problem(StatusCode::NOT_FOUND.into_response(), "r");
        assert_eq!(json(response).await["type"], "/problems/not-found");
        let fine = render_problem((StatusCode::OK, "text").into_response(), "r");
        assert_eq!(fine.into_body().collect().await.unwrap().to_bytes(), "text");
    }

    /// Proves: outages
    #[test]
    fn every_outage_of_a_server_is_unavailable_with_a_time() {
        use unslide_artifacts::StorageError::{File, Refused};
        let refused = Refused { operation: "put", key: "t/acme/x".into(), detail: "403 AccessDenied".into() };
        let full = File(std::io::Error::from(std::io::ErrorKind::StorageFull));
        for problem in [
            Problem::from(unslide_store::StoreError::ReadOnly),
            Problem::from(refused),
            Problem::from(full),
            Problem::from(unslide_stream::StreamError::Refused("the password is wrong".into())),
        ] {
            assert_eq!(problem.kind(), Kind::Unavailable, "{problem:?}");
            assert!(problem.retry_seconds().is_some() && problem.detail().is_none(), "{problem:?}");
        }
    }

    #[test]
    fn a_problem_passes_through_a_reader() {
        let read = |error| Problem::from(unslide_artifacts::StorageError::Source(error)).kind();
        assert_eq!(read(std::io::Error::other(Problem::from_kind(Kind::BodyTimeout))), Kind::BodyTimeout);
        assert_eq!(read(std::io::Error::other("else")), Kind::IncompleteBody);
    }
}
