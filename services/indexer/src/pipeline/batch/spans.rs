//! Spans of stored records: children of the spans that wrote them to Kafka, exported once the batch is committed.

use crate::metrics::arrival_outcome_name;
use crate::records::{Item, Parsed};
use std::collections::HashMap;
use std::sync::Arc;
use unslide_model::{Clock, TenantId};
use unslide_proto::trace::Ids;
use unslide_runtime::Host;
use unslide_runtime::traces::{FinishedSpan, SpanKind, SpanTimes, Tracer};
use unslide_store::reports::ArrivalOutcome;
use unslide_stream::RecordRef;

/// Exports the spans of one writer.
pub(super) struct BatchSpans {
    tracer: Tracer,
    clock: Arc<dyn Clock>,
    ids: Ids,
}

impl BatchSpans {
    pub(super) fn new(host: &Host) -> BatchSpans {
        BatchSpans { tracer: host.tracer.clone(), clock: host.clock.clone(), ids: Ids::default() }
    }

    /// Returns the time at which a batch begins, in microseconds; 0 if spans are not exported.
    pub(super) fn begin_time(&self) -> i64 {
        if self.tracer.is_on() { self.clock.now_micros() } else { 0 }
    }

    /// Exports the spans of a committed batch, if their traces are sampled. `reports` are outcomes of reports in it.
    pub(super) fn export_batch(
        &self,
        began_micros: i64,
        items: &[Item],
        reports: &[(RecordRef, ArrivalOutcome)],
    ) {
        if !self.tracer.is_on() {
            return;
        }
        let times = SpanTimes { began_micros, ended_micros: self.clock.now_micros() };
        let reports: HashMap<&RecordRef, ArrivalOutcome> =
            reports.iter().map(|(at, end)| (at, *end)).collect();
        for item in items.iter().filter(|item| !item.is_deferred()) {
            let Some(header) = &item.traceparent else { continue };
            let context = self.tracer.continue_trace(Some(header), &self.ids);
            if !context.is_sampled() {
                continue;
            }
            let at = &item.at;
            let batch = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let mut span =
                FinishedSpan::new(SpanKind::Consumer, format!("store {}", at.topic), context, times)
                    .with_remote_parent(Some(header))
                    .with_attribute("messaging.system", "kafka")
                    .with_attribute("messaging.operation.name", "store")
                    .with_attribute("messaging.operation.type", "process")
                    .with_attribute("messaging.destination.name", at.topic.to_string())
                    .with_attribute("messaging.destination.partition.id", at.partition.to_string())
                    .with_attribute("messaging.kafka.offset", at.offset)
                    .with_attribute("messaging.batch.message_count", batch);
            if let Some(tenant) = item.tenant.as_ref().map(TenantId::to_string) {
                span = span.with_attribute("unslide.tenant", tenant);
            }
            self.tracer.export_span(with_outcome(span, item, reports.get(at).copied()));
        }
    }
}

fn with_outcome(span: FinishedSpan, item: &Item, report: Option<ArrivalOutcome>) -> FinishedSpan {
    const OUTCOME: &str = "unslide.outcome";
    match &item.parsed {
        Parsed::Report(read) => {
            let app = read.arrival.facts.app.clone();
            let span = if app.is_empty() { span } else { span.with_attribute("unslide.app", app) };
            // A report of a tenant that does not exist has no other outcome.
            span.with_attribute(OUTCOME, report.map_or("unreadable", arrival_outcome_name))
        }
        Parsed::DeadLetter(..) => span.with_attribute(OUTCOME, "dead_letter"),
        Parsed::Unreadable(why) => span.with_attribute(OUTCOME, "unreadable").with_error(why.reason),
        Parsed::Failed(failure) => span.with_attribute(OUTCOME, "not_stored").with_error(failure.reason),
        Parsed::Event(_)
        | Parsed::Answer(_)
        | Parsed::Uses(_)
        | Parsed::Deferred
        | Parsed::PassedOn
        | Parsed::Nothing => span,
    }
}
