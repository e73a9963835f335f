//! Every way in which a request can fail, and the one place that turns failures into HTTP.
//!
//! A failure is answered as RFC 9457 problem details. Its `type` is a URN that never changes, so
//! clients compare it; `title` and `detail` are for people. What went wrong inside the service
//! never reaches the answer: a 5xx body has only the request's id, under which the cause is logged.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as Documented, ResponseBuilder};

/// The media type of a problem (RFC 9457 §3).
pub const MEDIA_TYPE: &str = "application/problem+json";

macro_rules! kinds {
    ($($(#[$doc:meta])+ $name:ident = ($status:ident, $slug:literal, $title:literal),)+) => {
        /// A kind of failure. Its slug is part of the public interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])+ $name,)+
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$name),+];

            /// The HTTP status that goes with the kind.
            #[must_use]
            pub fn status(self) -> StatusCode {
                match self { $(Kind::$name => StatusCode::$status,)+ }
            }

            /// The last part of the kind's `type`.
            #[must_use]
            pub fn slug(self) -> &'static str {
                match self { $(Kind::$name => $slug,)+ }
            }

            /// A short sentence for people, the same for every occurrence.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Kind::$name => $title,)+ }
            }
        }
    };
}

kinds! {
    /// A path, query or header parameter can't be used.
    InvalidParameter = (BAD_REQUEST, "invalid-parameter", "A parameter is not valid"),
    /// A JSON request body is not what the operation takes.
    InvalidBody = (BAD_REQUEST, "invalid-body", "The request body is not valid"),
    /// A crash report can't be read as JSON, or is no object.
    InvalidReport = (BAD_REQUEST, "invalid-report", "A report is not valid JSON"),
    /// An upload is empty, or its multipart framing is broken.
    InvalidUpload = (BAD_REQUEST, "invalid-upload", "The upload is not valid"),
    /// The connection ended, or stalled, before the body did.
    IncompleteBody = (BAD_REQUEST, "incomplete-body", "The body ended early"),
    /// The body's hash is not the one that the client announced.
    ChecksumMismatch = (BAD_REQUEST, "checksum-mismatch", "The body does not match its checksum"),
    /// No key, or none that is in force.
    Unauthorized = (UNAUTHORIZED, "unauthorized", "A valid API key is needed"),
    /// The key lacks the operation's scope.
    InsufficientScope = (FORBIDDEN, "insufficient-scope", "The API key may not do this"),
    /// The tenant is suspended.
    TenantSuspended = (FORBIDDEN, "tenant-suspended", "The tenant is suspended"),
    /// There is no such thing, or it is another tenant's.
    NotFound = (NOT_FOUND, "not-found", "There is no such resource"),
    /// The path exists, the method does not.
    MethodNotAllowed = (METHOD_NOT_ALLOWED, "method-not-allowed", "The resource has no such method"),
    /// None of the media types in `Accept` can be produced.
    NotAcceptable = (NOT_ACCEPTABLE, "not-acceptable", "No acceptable representation"),
    /// The body stalled for too long.
    BodyTimeout = (REQUEST_TIMEOUT, "body-timeout", "The body came too slowly"),
    /// Something of that name exists already.
    Conflict = (CONFLICT, "conflict", "It exists already"),
    /// An upload is to be completed, and parts of it have not come.
    IncompleteUpload = (CONFLICT, "incomplete-upload", "Parts of the upload are missing"),
    /// An upload takes no parts any more. What has not come whole has to be begun again.
    UploadEnded = (CONFLICT, "upload-ended", "The upload takes no parts any more"),
    /// A dead letter was replayed, and the request does not say to do it again.
    AlreadyReplayed = (CONFLICT, "already-replayed", "It was replayed already"),
    /// The body, or one of its parts, is over a limit.
    TooLarge = (PAYLOAD_TOO_LARGE, "too-large", "The body is too large"),
    /// The body is in a format that the operation does not take.
    UnsupportedFormat = (UNSUPPORTED_MEDIA_TYPE, "unsupported-format", "The format is not supported"),
    /// The tenant has asked for more of something than it may in this time. The request may be sent again.
    RateLimited = (TOO_MANY_REQUESTS, "rate-limited", "The tenant asks for more than it may now"),
    /// The tenant has as much in work as it may have at once. The request may be sent again.
    TenantBusy = (TOO_MANY_REQUESTS, "tenant-busy", "The tenant has too much in work at once"),
    /// The tenant stores as many symbols as it may.
    SymbolQuota = (INSUFFICIENT_STORAGE, "symbol-quota", "The tenant's room for symbols is used up"),
    /// Something failed inside the service.
    Internal = (INTERNAL_SERVER_ERROR, "internal", "Internal error"),
    /// A server that the operation needs does not answer. The request may be sent again.
    Unavailable = (SERVICE_UNAVAILABLE, "unavailable", "The service can't answer now"),
    /// Too many requests are being worked on. The request may be sent again.
    Overloaded = (SERVICE_UNAVAILABLE, "overloaded", "Too many requests at once"),
}

impl Kind {
    /// The kind's `type`: a URN.
    #[must_use]
    pub fn uri(self) -> String {
        format!("urn:unslide:problem:{}", self.slug())
    }

    /// The kind that a bare HTTP error status of the framework stands for.
    fn of_status(status: StatusCode) -> Kind {
        match status {
            StatusCode::NOT_FOUND => Kind::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Kind::MethodNotAllowed,
            StatusCode::PAYLOAD_TOO_LARGE => Kind::TooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Kind::UnsupportedFormat,
            StatusCode::REQUEST_TIMEOUT => Kind::BodyTimeout,
            status if status.is_client_error() => Kind::InvalidParameter,
            _ => Kind::Internal,
        }
    }
}

/// Problem details (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem, example = json!({
    "type": "urn:unslide:problem:not-found", "title": "There is no such resource", "status": 404,
    "detail": "no upload has this id", "request_id": "8b2ad1b7c0ffee42"
}))]
pub struct Body<'a> {
    /// What kind of failure it is: a URN that never changes.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind's title, for people.
    pub title: &'a str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What went wrong with this request, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'a str>,
    /// The request's id, also in the `x-request-id` header and in the service's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<&'a str>,
}

/// A failed request, on its way to becoming an answer.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: Kind,
    detail: Option<String>,
    retry_after: Option<u32>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl Problem {
    /// A problem with its general text only.
    #[must_use]
    pub fn bare(kind: Kind) -> Problem {
        Problem { kind, detail: None, retry_after: None, cause: None }
    }

    /// A problem that tells the client what is wrong with this request.
    #[must_use]
    pub fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        Problem { detail: Some(detail.into()), ..Problem::bare(kind) }
    }

    /// A fault of the service. The cause goes to the log, never to the client.
    pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Problem {
        Problem { cause: Some(shared(cause)), ..Problem::bare(Kind::Internal) }
    }

    /// A server that does not answer for now: 503 with `Retry-After` of `seconds`.
    pub fn unavailable(cause: impl Into<Box<dyn Error + Send + Sync>>, seconds: u32) -> Problem {
        Problem { cause: Some(shared(cause)), retry_after: Some(seconds), ..Problem::bare(Kind::Unavailable) }
    }

    /// The same problem with a `Retry-After` of `seconds`.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Problem {
        Problem { retry_after: Some(seconds), ..self }
    }

    /// The problem's kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The text for the client, where there is one.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Writes the answer, and the log entry where the fault is the service's.
    fn finish(&self, request_id: &str) -> Response {
        let status = self.kind.status();
        if status.is_server_error() && self.kind != Kind::SymbolQuota {
            self.log(request_id);
        }
        let body = Body {
            kind: self.kind.uri(),
            title: self.kind.title(),
            status: status.as_u16(),
            detail: self.detail.as_deref(),
            request_id: Some(request_id),
        };
        let text = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.kind == Kind::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"unslide\""));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    fn log(&self, request_id: &str) {
        let cause = self.cause.as_ref().map(|cause| chain(cause.as_ref())).unwrap_or_default();
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

/// So that a problem can pass through readers and streams, and be taken out at the other end.
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

fn shared(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Arc<dyn Error + Send + Sync> {
    let cause: Box<dyn Error + Send + Sync> = cause.into();
    cause.into()
}

/// An error and its causes in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Wrappers often print their source already.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

impl From<unslide_store::StoreError> for Problem {
    fn from(error: unslide_store::StoreError) -> Problem {
        if matches!(error, unslide_store::StoreError::TenantDeleted) {
            // As for any key of a deleted tenant: this one came in a moment before.
            return Problem::bare(Kind::Unauthorized);
        }
        if error.is_retriable() { Problem::unavailable(error, 2) } else { Problem::internal(error) }
    }
}

impl From<unslide_artifacts::StoreError> for Problem {
    fn from(error: unslide_artifacts::StoreError) -> Problem {
        use unslide_artifacts::StoreError;
        match error {
            StoreError::TooLarge { limit, .. } => {
                Problem::new(Kind::TooLarge, format!("the limit is {limit} bytes"))
            }
            // The bytes came from the client: what was wrong with them is inside.
            StoreError::Source(source) => crate::multipart::carried(&source).unwrap_or_else(|| {
                Problem::new(Kind::IncompleteBody, "the body could not be read to its end")
            }),
            error if error.is_transient() => Problem::unavailable(error, 5),
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
                format!("a report of {bytes} bytes is more than the topic takes"),
            ),
            error if error.is_transient() => Problem::unavailable(error, 5),
            error => Problem::internal(error),
        }
    }
}

impl From<unslide_runtime::CpuError> for Problem {
    fn from(error: unslide_runtime::CpuError) -> Problem {
        Problem::internal(error)
    }
}

/// The problem itself travels in the response's extensions; [`render`], which knows the request's
/// id, writes the body.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.kind.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Gives a failed response its problem body; the framework's own errors (no such path or method)
/// become problems too. Any other response stays as it is.
pub fn render(response: Response, request_id: &str) -> Response {
    if let Some(problem) = response.extensions().get::<Problem>() {
        return problem.finish(request_id);
    }
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let mut rendered = Problem::bare(Kind::of_status(status)).finish(request_id);
    if let Some(allow) = response.headers().get(header::ALLOW) {
        rendered.headers_mut().insert(header::ALLOW, allow.clone());
    }
    rendered
}

/// The failures that every operation with a key can end in.
const EVERY: &[Kind] = &[
    Kind::Unauthorized,
    Kind::InsufficientScope,
    Kind::TenantSuspended,
    Kind::TenantBusy,
    Kind::Internal,
    Kind::Unavailable,
    Kind::Overloaded,
];

/// The OpenAPI responses of an operation that can fail in these ways, and in those that all
/// operations share.
#[must_use]
pub fn documented(kinds: &[Kind]) -> BTreeMap<String, RefOr<Documented>> {
    let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
    for kind in EVERY.iter().chain(kinds) {
        let kinds = by_status.entry(kind.status().as_u16()).or_default();
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    by_status.into_iter().map(|(status, kinds)| (status.to_string(), response(&kinds).into())).collect()
}

fn response(kinds: &[Kind]) -> Documented {
    let description =
        kinds.iter().map(|k| format!("`{}`: {}.", k.slug(), k.title())).collect::<Vec<_>>().join(" ");
    let examples = kinds.iter().map(|kind| {
        let body = serde_json::json!({
            "type": kind.uri(), "title": kind.title(), "status": kind.status().as_u16(),
            "request_id": "8b2ad1b7c0ffee42",
        });
        (kind.slug(), ExampleBuilder::new().value(Some(body)).build())
    });
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .examples_from_iter(examples)
        .build();
    ResponseBuilder::new().description(description).content(MEDIA_TYPE, content).build()
}

/// Names the failures of one operation, for its `responses(…)`.
macro_rules! problems {
    ($name:ident: $($kind:ident),* $(,)?) => {
        #[doc = "The documented failures of the operation in this file."]
        enum $name {}

        impl utoipa::IntoResponses for $name {
            fn responses()
            -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                $crate::problem::documented(&[$($crate::problem::Kind::$kind),*])
            }
        }
    };
}
pub(crate) use problems;

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn json(response: Response) -> serde_json::Value {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn slugs_are_unique_and_stable() {
        let slugs: Vec<_> = Kind::ALL.iter().map(|k| (k.slug(), k.status().as_u16())).collect();
        insta::assert_debug_snapshot!(slugs);
        let mut unique: Vec<_> = slugs.iter().map(|(slug, _)| slug).collect();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), slugs.len());
    }

    #[tokio::test]
    async fn a_fault_of_the_service_says_nothing_but_its_id() {
        let secret = std::io::Error::other("password for postgres://user:hunter2@db is wrong");
        let response = render(Problem::internal(secret).into_response(), "abc123");
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["content-type"], MEDIA_TYPE);
        let body = json(response).await;
        assert_eq!(
            body,
            serde_json::json!({"type": "urn:unslide:problem:internal", "title": "Internal error",
                "status": 500, "request_id": "abc123"})
        );
    }

    #[tokio::test]
    async fn a_bare_error_status_becomes_a_problem_and_success_does_not() {
        let response = render(StatusCode::NOT_FOUND.into_response(), "r");
        assert_eq!(json(response).await["type"], "urn:unslide:problem:not-found");
        let fine = render((StatusCode::OK, "text").into_response(), "r");
        assert_eq!(fine.into_body().collect().await.unwrap().to_bytes(), "text");
    }

    #[test]
    fn causes_are_kept_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("can't store")]
        struct Outer(#[source] std::io::Error);
        assert_eq!(chain(&Outer(std::io::Error::other("disk is full"))), "can't store: disk is full");
    }
}
