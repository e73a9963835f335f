//! Spans of records, exported once their transaction is committed. A record's span has the id that its
//! outputs carry, so that a reader of an output continues the trace.

use crate::output::ledger::outcome_name;
use crate::output::traces::RecordTraces;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use unslide_proto::headers;
use unslide_proto::report::Outcome;
use unslide_proto::trace::TraceContext;
use unslide_runtime::traces::{FinishedSpan, SpanKind, SpanTimes};
use unslide_stream::Record;
use unslide_stream::lane::Done;

/// Name of the step in which a record is read and its frames are looked up.
pub const SYMBOLICATE_STEP: &str = "symbolicate";
/// Name of the step for the transaction with the outputs and the offsets.
const COMMIT_STEP: &str = "commit";

/// Exports the spans of one lane.
pub struct LaneSpans {
    traces: Arc<RecordTraces>,
    lane: &'static str,
    /// Start of the transaction under way; a lane has one at a time.
    commit_began_micros: AtomicI64,
}

impl LaneSpans {
    /// Creates the exporter of the lane with this name.
    pub fn new(traces: &Arc<RecordTraces>, lane: &'static str) -> LaneSpans {
        LaneSpans { traces: Arc::clone(traces), lane, commit_began_micros: AtomicI64::new(0) }
    }

    /// Records that a transaction begins.
    pub fn begin_commit(&self) {
        if self.traces.tracer.is_on() {
            self.commit_began_micros.store(self.traces.clock.now_micros(), Ordering::Relaxed);
        }
    }

    /// Exports the spans of a committed transaction, if their traces are sampled.
    pub fn export_spans(&self, records: &[&Record], done: &[&Done]) {
        if !self.traces.tracer.is_on() {
            return;
        }
        let commit = SpanTimes {
            began_micros: self.commit_began_micros.load(Ordering::Relaxed),
            ended_micros: self.traces.clock.now_micros(),
        };
        for (record, done) in records.iter().zip(done) {
            let carried =
                done.outputs.iter().find_map(|output| output.headers.get_text(headers::TRACEPARENT));
            let carried = carried.and_then(TraceContext::from_header);
            // A ledger entry does not carry a trace.
            let context = carried
                .unwrap_or_else(|| self.traces.continue_trace(record.headers.get_text(headers::TRACEPARENT)));
            if context.is_sampled() {
                self.export_record(record, done, context, commit);
            }
        }
    }

    fn export_record(&self, record: &Record, done: &Done, context: TraceContext, commit: SpanTimes) {
        let (traces, at) = (&self.traces, &record.at);
        let history = done.history.as_deref();
        let steps = history.map(|history| history.steps.as_slice()).unwrap_or_default();
        let began = steps.iter().map(|step| step.began_micros).min();
        let times = SpanTimes { began_micros: began.unwrap_or(commit.began_micros), ..commit };
        let mut span = FinishedSpan::new(SpanKind::Consumer, format!("process {}", at.topic), context, times)
            .with_remote_parent(record.headers.get_text(headers::TRACEPARENT))
            .with_attribute("messaging.system", "kafka")
            .with_attribute("messaging.operation.name", "process")
            .with_attribute("messaging.operation.type", "process")
            .with_attribute("messaging.destination.name", at.topic.to_string())
            .with_attribute("messaging.destination.partition.id", at.partition.to_string())
            .with_attribute("messaging.kafka.offset", at.offset)
            .with_attribute("unslide.lane", self.lane);
        if let Some((tenant, outcome)) = done.outcomes.first() {
            span = span
                .with_attribute("unslide.tenant", tenant.clone())
                .with_attribute("unslide.outcome", outcome_name(*outcome));
        }
        if let Some(app) = history.and_then(|history| history.app.as_ref()) {
            span = span.with_attribute("unslide.app", app.clone());
        }
        if let reports @ 2.. = done.outcomes.len() {
            span = span.with_attribute("unslide.reports", i64::try_from(reports).unwrap_or(i64::MAX));
        }
        let reason = done.outputs.iter().find_map(|output| output.headers.get_text(headers::REASON));
        if let Some(reason) = reason.map(str::to_owned) {
            let is_dead = done.outcomes.iter().any(|(_, outcome)| *outcome == Outcome::DeadLetter);
            span =
                if is_dead { span.with_error(reason) } else { span.with_attribute("unslide.reason", reason) };
        }
        for step in steps {
            let times = SpanTimes { began_micros: step.began_micros, ended_micros: step.ended_micros };
            traces.tracer.export_span(span.create_child(step.name, times, &traces.ids));
        }
        traces.tracer.export_span(span.create_child(COMMIT_STEP, commit, &traces.ids));
        traces.tracer.export_span(span);
    }
}
