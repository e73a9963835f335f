//! OpenTelemetry spans: one for each hop of a report, sent to a collector by OTLP.
//!
//! Services do not open spans and pass them around. They have a [`TraceContext`] from a header, and after the work is
//! committed they create a [`FinishedSpan`] with its times. So repeated work leaves no span of the first attempt.

mod export;
mod settings;
mod span;

pub use export::ExportError;
pub use opentelemetry::trace::SpanKind;
pub use settings::TraceSettings;
pub use span::{FinishedSpan, SpanTimes};

use export::SpanExport;
use prometheus::Registry;
use std::sync::Arc;
use std::time::Duration;
use unslide_proto::trace::{Ids, TraceContext};

/// The maximum time to send the last spans at shutdown.
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Passes the finished spans of one service to its exporter. Without an exporter it does nothing and costs only a
/// branch. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<SpanExport>>);

impl Tracer {
    /// Starts the exporter of a service. Call it on the async runtime, which sends the requests.
    ///
    /// # Errors
    /// Returns an error if the HTTP client, the exporter or its metrics cannot be created.
    pub fn start(
        settings: &TraceSettings,
        service: &str,
        registry: &Registry,
    ) -> Result<Tracer, ExportError> {
        Ok(Tracer(Some(Arc::new(SpanExport::start(settings, service, registry)?))))
    }

    /// Returns true if spans are exported.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Continues the trace of a `traceparent` header in a new span, or begins a trace. The sampler decides whether it
    /// is sampled. Without an exporter, the header decides.
    #[must_use]
    pub fn continue_trace(&self, traceparent: Option<&str>, ids: &Ids) -> TraceContext {
        let context = TraceContext::from_parent(traceparent, ids);
        match &self.0 {
            None => context,
            Some(export) => {
                let parent = traceparent.and_then(TraceContext::from_header);
                context.with_sampled(export.is_sampled(parent, context))
            }
        }
    }

    /// Queues a span. If the queue is full, the span is dropped and counted. Never waits.
    pub fn export_span(&self, span: FinishedSpan) {
        if let Some(export) = &self.0 {
            export.queue_span(span);
        }
    }

    /// Sends the last spans, within [`FLUSH_TIMEOUT`]. Later spans are dropped.
    pub async fn stop(&self) {
        let Some(export) = self.0.clone() else { return };
        // Stopping blocks until the exporter's thread has ended.
        let stopped = tokio::task::spawn_blocking(move || export.stop(FLUSH_TIMEOUT)).await;
        if let Err(error) = stopped {
            tracing::warn!(error = &error as &dyn std::error::Error, "the last spans were not sent");
        }
    }
}

#[cfg(test)]
mod tests;
