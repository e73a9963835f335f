//! Spans as services create them.

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use std::borrow::Cow;
use std::time::{Duration, SystemTime};
use unslide_proto::trace::{Ids, TraceContext};

/// The times of a span, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanTimes {
    /// The beginning.
    pub began_micros: i64,
    /// The end.
    pub ended_micros: i64,
}

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct FinishedSpan {
    pub(super) data: SpanData,
    context: TraceContext,
}

impl FinishedSpan {
    /// Creates a span with the ids of `context`, without a parent.
    #[must_use]
    pub fn new(
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
        context: TraceContext,
        times: SpanTimes,
    ) -> FinishedSpan {
        let data = SpanData {
            span_context: span_context(context, false),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: kind,
            name: name.into(),
            start_time: to_system_time(times.began_micros),
            // The duration is not negative even if the clock was set back.
            end_time: to_system_time(times.ended_micros.max(times.began_micros)),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        };
        FinishedSpan { data, context }
    }

    /// Sets the parent to the span that wrote a `traceparent` header, unless it belongs to another trace.
    #[must_use]
    pub fn with_remote_parent(mut self, traceparent: Option<&str>) -> FinishedSpan {
        let parent = traceparent.and_then(TraceContext::from_header);
        if let Some(parent) = parent.filter(|parent| parent.trace == self.context.trace) {
            self.data.parent_span_id = SpanId::from(parent.span);
            self.data.parent_span_is_remote = true;
        }
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with_attribute(mut self, key: &'static str, value: impl Into<Value>) -> FinishedSpan {
        self.data.attributes.push(KeyValue::new(key, value));
        self
    }

    /// Marks the span as failed, with a stable word for the reason.
    #[must_use]
    pub fn with_error(mut self, reason: impl Into<Cow<'static, str>>) -> FinishedSpan {
        let reason = reason.into();
        self.data.attributes.push(KeyValue::new("error.type", reason.clone().into_owned()));
        self.data.status = Status::error(reason);
        self
    }

    /// Creates a span for a part of this one's work.
    #[must_use]
    pub fn create_child(&self, name: &'static str, times: SpanTimes, ids: &Ids) -> FinishedSpan {
        let context = TraceContext { span: ids.next(), ..self.context };
        let mut child = FinishedSpan::new(SpanKind::Internal, name, context, times);
        child.data.parent_span_id = SpanId::from(self.context.span);
        child
    }
}

/// Returns the context of a span in the library's type.
pub(super) fn span_context(context: TraceContext, is_remote: bool) -> SpanContext {
    let (trace, span) = (TraceId::from(context.trace), SpanId::from(context.span));
    SpanContext::new(trace, span, TraceFlags::new(context.flags), is_remote, TraceState::NONE)
}

fn to_system_time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
