//! Layers of every request: an id, a span, a count, a limit on load, and problem details for every failure.

use crate::http::arriving_body::ArrivingBody;
use crate::http::linger;
use crate::http::question::{CallerQuestion, run_question};
use crate::http::server::Crowded;
use crate::http::spans::{RequestSpan, RequestTraces};
use crate::http::trace::request_id;
use crate::limits::capacity::Capacity;
use crate::limits::slot::RequestSlot;
use crate::metrics::Metrics;
use crate::problem::{self, Kind, Problem};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, TRANSFER_ENCODING};
use http::uri::Authority;
use http::{HeaderName, HeaderValue, Version};
use std::any::Any;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::Instrument;
use unslide_model::PROCESS_USE;
use unslide_runtime::clients::Network;
use unslide_runtime::panic_text;
use unslide_runtime::resource_use::measure_future;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The id of a request, as in its response and in the log.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// The part of the api's state for the layer around every request.
pub struct RequestObserver {
    pub traces: RequestTraces,
    pub metrics: Metrics,
    /// True if requests that succeed are logged, too.
    pub logs_requests: bool,
}

/// Outermost layer: assigns the id and the span, counts the request, and renders failures.
#[axum::debug_middleware]
pub async fn observe_request(
    State(observer): State<Arc<RequestObserver>>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request_id(header_text(&request, &REQUEST_ID), &observer.traces.ids);
    let parent = header_text(&request, &TRACEPARENT);
    let context = observer.traces.tracer.continue_trace(parent, &observer.traces.ids);
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    let exported = RequestSpan::begin(&observer.traces, &method, &route, context, parent);
    // The path and query may contain personal data: the log has only the route's template.
    let span = tracing::info_span!(
        "request",
        request.id = id,
        trace.id = format_args!("{:032x}", context.trace),
        span.id = format_args!("{:016x}", context.span),
        http.method = %method,
        http.route = route,
        // Set if no valid key is sent, so that an operator sees who tries which key.
        peer.address = tracing::field::Empty,
        key.prefix = tracing::field::Empty,
    );
    request.extensions_mut().insert(context);
    request.extensions_mut().insert(RequestId(id.clone()));
    let question = request.extensions().get::<CallerQuestion>().cloned();
    let start = Instant::now();
    let answer = async move {
        let request = request.map(linger::wrap_lingering);
        let response = match check_host(&request).and_then(|()| check_coding(&request)) {
            Ok(()) if question.is_some() => run_question(next.run(request)).await,
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        };
        if let Some(question) = question {
            // The request itself is still to come. This one is no part of the figures.
            return question.render_answer(&response);
        }
        let mut response = problem::render_problem(response, &id);
        let (status, took) = (response.status(), start.elapsed());
        observer.metrics.count_request(&method, &route, status, took);
        if let Some(exported) = exported {
            exported.export(&observer.traces, status);
        }
        if observer.logs_requests || status.is_client_error() || status.is_server_error() {
            tracing::info!(http.status = status.as_u16(), seconds = took.as_secs_f64(), "request answered");
        }
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        response
    };
    answer.instrument(span).await
}

/// Checks that an HTTP/1.1 request names its host exactly once (RFC 9112 §3.2).
fn check_host(request: &Request) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let valid = |host: &HeaderValue| {
        let authority = Authority::try_from(host.as_bytes());
        host.is_empty() || authority.is_ok_and(|authority| !authority.as_str().contains('@'))
    };
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() != Version::HTTP_11 => Ok(()),
        (Some(host), None) if valid(host) => Ok(()),
        (None, _) => Err(Problem::new(Kind::InvalidRequest, "an HTTP/1.1 request needs a Host header")),
        _ => Err(Problem::new(Kind::InvalidRequest, "the Host header is not valid, or there are several")),
    }
}

/// Refuses transfer codings that the service does not decode (RFC 9112 §6.1).
fn check_coding(request: &Request) -> Result<(), Problem> {
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return Ok(());
    }
    Err(Problem::new(
        Kind::InvalidRequest,
        "the only Transfer-Encoding is chunked; Content-Encoding names others",
    ))
}

fn header_text<'r>(request: &'r Request, name: &HeaderName) -> Option<&'r str> {
    request.headers().get(name)?.to_str().ok()
}

/// Refuses a request at once if too many run, because they would only slow each other down. The request
/// carries its slot, which is assigned to its tenant once the key is known.
pub async fn bound_load(State(capacity): State<Arc<Capacity>>, mut request: Request, next: Next) -> Response {
    if request.extensions().get::<Crowded>().is_some() {
        let detail = "Too many concurrent requests without a key from one address";
        return Problem::new(Kind::Overloaded, detail).retry_after(1).into_response();
    }
    let slot = match RequestSlot::take(&capacity.permits) {
        Ok(slot) => slot,
        Err(exhausted) => return Problem::from(exhausted).into_response(),
    };
    request.extensions_mut().insert(slot.clone());
    let network = request.extensions().get::<Network>().copied();
    let request =
        request.map(|body| ArrivingBody::wrap(body, slot.clone(), capacity.permits.clone(), network));
    let (response, used) = measure_future(next.run(request)).await;
    PROCESS_USE.add(slot.caller().tenant(), used);
    slot.release();
    response
}

/// Converts a panic to a problem. The process's panic hook logs its location.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
pub fn panic_response(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic_text(&*panic);
    Problem::internal(format!("a handler panicked: {text}")).into_response()
}
