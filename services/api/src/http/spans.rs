//! Spans of requests that begin the trace of a report, an event or a payload through Kafka.

use crate::http::trace::Ids;
use http::{Method, StatusCode};
use std::sync::Arc;
use unslide_model::Clock;
use unslide_proto::trace::TraceContext;
use unslide_runtime::traces::{FinishedSpan, SpanKind, SpanTimes, Tracer};

/// Routes with records that carry the request's trace. Requests of people and dashboards have no spans.
const TRACED_ROUTES: [&str; 3] = ["/v1/reports", "/v1/sessions", "/v1/metrics"];

/// Ids and traces of requests, with the exporter of spans.
pub struct RequestTraces {
    pub ids: Ids,
    pub tracer: Tracer,
    pub clock: Arc<dyn Clock>,
}

/// The span of a running request.
pub struct RequestSpan {
    context: TraceContext,
    parent: Option<String>,
    route: &'static str,
    began_micros: i64,
}

impl RequestSpan {
    /// Begins a span. Returns `None` if the request has none.
    pub fn begin(
        traces: &RequestTraces,
        method: &Method,
        route: &str,
        context: TraceContext,
        parent: Option<&str>,
    ) -> Option<RequestSpan> {
        if !traces.tracer.is_on() || !context.is_sampled() || method != Method::POST {
            return None;
        }
        let route = TRACED_ROUTES.into_iter().find(|known| *known == route)?;
        let parent = parent.map(str::to_owned);
        Some(RequestSpan { context, parent, route, began_micros: traces.clock.now_micros() })
    }

    /// Exports the span of the request that got this status.
    pub fn export(self, traces: &RequestTraces, status: StatusCode) {
        let times = SpanTimes { began_micros: self.began_micros, ended_micros: traces.clock.now_micros() };
        let name = format!("POST {}", self.route);
        let mut span = FinishedSpan::new(SpanKind::Server, name, self.context, times)
            .with_remote_parent(self.parent.as_deref())
            .with_attribute("http.request.method", "POST")
            .with_attribute("http.route", self.route)
            .with_attribute("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            span = span.with_error(status.as_str().to_owned());
        }
        traces.tracer.export_span(span);
    }
}
