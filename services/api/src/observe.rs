//! What every request goes through: an id, a span, a count, bounds on load and time, and an end in
//! problem details whatever happens.

use crate::linger;
use crate::problem::{self, Problem};
use crate::state::Api;
use crate::trace::{TraceContext, request_id};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use std::any::Any;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Instrument;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The outermost layer.
#[axum::debug_middleware]
pub async fn observe(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let id = request_id(header(&request, &REQUEST_ID), &api.ids);
    let context = TraceContext::continued(header(&request, &TRACEPARENT), &api.ids);
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    // The path and query may hold what is personal: the log names the route's template only.
    let span = tracing::info_span!(
        "request",
        request.id = id,
        trace.id = format_args!("{:032x}", context.trace),
        span.id = format_args!("{:016x}", context.span),
        http.method = %method,
        http.route = route,
    );
    request.extensions_mut().insert(context);
    let start = Instant::now();
    let answer = async move {
        let request = request.map(linger::linger);
        let mut response = problem::render(next.run(request).await, &id);
        let (status, took) = (response.status(), start.elapsed());
        api.metrics.answered(&method, &route, status, took);
        tracing::info!(http.status = status.as_u16(), seconds = took.as_secs_f64(), "request answered");
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        let headers = response.headers_mut();
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        response
    };
    answer.instrument(span).await
}

fn header<'r>(request: &'r Request, name: &HeaderName) -> Option<&'r str> {
    request.headers().get(name)?.to_str().ok()
}

/// Refuses a request at once when too many are in work; they would only make each other slower. Its slot
/// goes with the request, which becomes its tenant's once the key is known.
pub async fn bound_load(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let slot = match api.permits.slot() {
        Ok(slot) => slot,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    slot.release();
    response
}

/// Ends a request that takes longer than it may.
pub async fn bound_time(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::unavailable(format!("no answer within {} s", limit.as_secs()), 5).into_response(),
    }
}

/// Makes a panic a problem like any other. Its place is in the log by the process's panic hook.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
pub fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    Problem::internal(format!("a handler panicked: {text}")).into_response()
}
