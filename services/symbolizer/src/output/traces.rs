//! Traces that records carry through the worker.

use std::sync::Arc;
use unslide_model::Clock;
use unslide_proto::headers;
use unslide_proto::trace::{Ids, TraceContext};
use unslide_runtime::traces::Tracer;
use unslide_stream::Record;

/// Ids of new spans, and the exporter of spans.
pub struct RecordTraces {
    pub ids: Ids,
    pub tracer: Tracer,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
}

impl RecordTraces {
    /// Returns the `traceparent` that a record's outputs continue.
    pub fn traceparent(&self, record: &Record) -> String {
        self.continue_trace(record.headers.get_text(headers::TRACEPARENT)).format_header()
    }

    /// Continues the trace of a header in a new span.
    pub fn continue_trace(&self, traceparent: Option<&str>) -> TraceContext {
        self.tracer.continue_trace(traceparent, &self.ids)
    }
}
