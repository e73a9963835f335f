//! Symbolicates the reports of one record, and returns the outcome of each.

use crate::admission::tenants::AllowedUse;
use crate::lanes::batch::RecordStep;
use crate::lanes::element::{ElementDocument, open_element};
use crate::output::dead_letters::{Position, Provenance};
use crate::output::outcomes;
use crate::source_record::{Reason, SourceRecord};
use crate::symbols::{self, FetchedSymbols, Generations, UnfetchedSymbols, Wanted};
use crate::worker::Worker;
use bytes::Bytes;
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_proto::report::Outcome;
use unslide_report::{Element, Report};
use unslide_stream::OutRecord;
use unslide_stream::lane::Done;
use unslide_symbolicate::{Context, Enrichment, Plan, most_bytes};

/// A record of a known tenant, and what its reports are symbolicated with.
pub struct RecordReports<'r> {
    pub worker: &'r Worker,
    pub entry: SourceRecord<'r>,
    pub value: &'r Bytes,
    pub tenant: &'r TenantId,
    pub limits: AllowedUse,
    pub fetched: Option<&'r FetchedSymbols>,
    /// True if symbols that cannot be fetched now won't be tried again.
    pub last: bool,
}

/// Result for one report of a record.
enum ReportResult {
    Answered {
        output: OutRecord,
        enriched: Box<Enrichment>,
        bytes: usize,
        /// The app that the report names, if the record's span is exported.
        app: Option<String>,
    },
    Dead(OutRecord),
    Wants(Vec<Wanted>),
    Held(UnfetchedSymbols),
}

impl RecordReports<'_> {
    /// Returns one output for each report of the record. If a report needs symbols first, returns those; if a
    /// report has to wait for symbols, returns one outcome for the whole record.
    pub fn symbolicate_all(&self, elements: &[Element<'_>]) -> RecordStep {
        let (count, tenant) = (elements.len(), self.tenant);
        // A report that fills the record is not an element of an array.
        let single = matches!(elements, [Element::Report(bytes)] if bytes.len() == self.value.len());
        let trace =
            self.worker.traces.continue_trace(self.entry.record.headers.get_text(headers::TRACEPARENT));
        let traceparent = trace.format_header();
        let is_exported = self.worker.traces.tracer.is_on() && trace.is_sampled();
        let mut done = Done {
            source: self.entry.record.at.clone(),
            outputs: Vec::with_capacity(count),
            outcomes: Vec::with_capacity(count),
            history: None,
        };
        let (mut answered, mut wanted, mut held) = (Vec::new(), Vec::new(), None);
        // The reports of an array share the output limit of one report of their total size.
        let mut room = most_bytes(self.value.len());
        for (index, element) in elements.iter().enumerate() {
            let mut history = Provenance::from_record(&self.entry, Some(tenant), traceparent.clone());
            history.position = (!single).then_some(Position { index, count });
            match self.symbolicate_element(element, &history, room, is_exported) {
                ReportResult::Answered { output, enriched, bytes, app } => {
                    if let Some(app) = app {
                        done.history.get_or_insert_default().app.get_or_insert(app);
                    }
                    room = room.saturating_sub(bytes);
                    done.outputs.push(output);
                    done.outcomes.push((tenant.to_string(), Outcome::Symbolicated));
                    answered.push(enriched);
                }
                ReportResult::Dead(letter) => {
                    done.outputs.push(letter);
                    done.outcomes.push((tenant.to_string(), Outcome::DeadLetter));
                }
                ReportResult::Wants(more) => wanted.extend(more),
                ReportResult::Held(why) => held = held.or(Some(why)),
            }
        }
        if !wanted.is_empty() {
            return RecordStep::Wants(wanted);
        }
        if let Some(held) = held {
            return self.hold_record(&held).into();
        }
        answered.iter().for_each(|enriched| self.worker.metrics.count_frames(enriched));
        done.into()
    }

    /// Returns one report's output of at most `room` bytes, or the symbols that it needs first. `is_exported`
    /// is true if the record's span is exported.
    fn symbolicate_element(
        &self,
        element: &Element<'_>,
        history: &Provenance<'_>,
        room: usize,
        is_exported: bool,
    ) -> ReportResult {
        let worker = self.worker;
        let dead = |bytes: &[u8], reason: &str, detail: &str| {
            let value = Some(self.value.slice_ref(bytes));
            ReportResult::Dead(history.dead_letter(&worker.outcomes.letters, value, reason, detail))
        };
        let ElementDocument { bytes, document } = match open_element(element, &worker.enricher.readers) {
            Ok(opened) => opened,
            Err(refused) => return dead(refused.bytes, "not_a_report", &refused.detail),
        };
        let most = self.limits.report_bytes;
        if most > 0 && bytes.len() as u64 > most {
            let detail = format!("the report has {} bytes, the limit of the tenant is {most}", bytes.len());
            return dead(bytes, "too_large", &detail);
        }
        let source = match worker.enricher.readers.open(&document, &worker.enricher.limits) {
            Ok(source) => source,
            Err(error) => return dead(bytes, error.reason(), &error.to_string()),
        };
        let report = match Report::read_event(source.json(), &worker.enricher.limits) {
            Ok(report) => report,
            Err(error) => return dead(bytes, error.reason(), &error.to_string()),
        };
        let plan = Plan::new(&report);
        let wanted =
            Wanted::for_report(self.tenant, &plan, &worker.enricher.list_analyses(self.tenant), |_| {
                Generations::default()
            });
        let answers = match worker.enricher.symbols.look_up_symbols(wanted, self.fetched, self.last) {
            symbols::Lookup::Answers(answers) => answers,
            symbols::Lookup::Wants(wanted) => return ReportResult::Wants(wanted),
            symbols::Lookup::Held(held) => return ReportResult::Held(held),
        };
        if !self.entry.internal {
            worker.warm_start.record_use(&self.entry.record.at, self.tenant, &answers.found);
        }
        let context = Context {
            tenant: Some(self.tenant),
            revision: Some(1),
            processed_at: Some(worker.clock.now()),
            most_bytes: Some(room),
            ..Context::default()
        };
        let id = self.tenant.scope(report.id);
        let output = match worker.enricher.build_output(&source, &plan, &id, &answers, history, context) {
            Ok(output) => output,
            Err(error) => return dead(bytes, error.reason(), &error.to_string()),
        };
        tracing::debug!(report.id = %id.id, trace.parent = history.traceparent, "a report was symbolicated");
        let bytes = output.bytes().len();
        let app = if is_exported { report.summary().app } else { None };
        ReportResult::Answered { output: output.record, enriched: Box::new(output.enriched), bytes, app }
    }

    /// Returns the outcome of a record that waits for symbols. For a record from an input, a late symcache
    /// does not count as a failed try; after that it does. Records in the retry tiers are not paced, so they
    /// do not wait for another tenant's rate.
    fn hold_record(&self, held: &UnfetchedSymbols) -> Done {
        let (entry, tenant) = (&self.entry, self.tenant);
        let cold = held.failure.is_none() && !entry.internal;
        let reason = if cold { Reason::Cold } else { Reason::FetchFailed };
        let why = held.describe_reason();
        let retried =
            outcomes::send_to_retry(&self.worker.outcomes, entry, tenant, Some(&held.id), reason, why);
        // The topics of copies accept every record that the input accepts.
        retried.unwrap_or_else(|| {
            outcomes::dead_letter(&self.worker.outcomes, entry, Some(tenant), "too_large", why)
        })
    }
}
