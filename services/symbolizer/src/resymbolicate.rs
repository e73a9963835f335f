//! The resymbolicate lane: stored reports that newer symbols may make better.

use crate::account::{Ledger, reference};
use crate::letters::History;
use crate::symbols::{Fetched, Generations, Wanted};
use crate::tenants::Standing;
use crate::worker::{Step, Worker};
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use unslide_model::{DebugId, ReportId, Scoped};
use unslide_proto::report::resymbolicate::Body;
use unslide_proto::report::{Outcome, Resymbolicate, TerminalOutcome};
use unslide_proto::{Message, body};
use unslide_report::{ReadLimits, Report};
use unslide_stream::lane::{Done, Pause, Processor, Refusal};
use unslide_stream::{OutRecord, Record};
use unslide_symbolicate::{Context, Enriched, Need, Plan};

/// The lane's name, also in its group and transactional id.
pub const NAME: &str = "resymbolicate";

/// Symbolicates stored reports again.
pub struct Again {
    worker: Arc<Worker>,
    ledger: Ledger,
}

/// Why a request can't be answered at all.
struct Unusable {
    reason: &'static str,
    detail: String,
}

impl Again {
    /// The lane of this worker, whose name is `slot`.
    pub fn new(worker: Arc<Worker>, slot: &str) -> Again {
        Again { ledger: worker.ledger(NAME, slot), worker }
    }

    fn look(&self, record: &Record, fetched: &Fetched) -> Step {
        self.answer(record, fetched).unwrap_or_else(|unusable| {
            Step::Done(self.worker.dead_letter(
                record,
                self.worker.traceparent(record),
                "",
                unusable.reason,
                &unusable.detail,
            ))
        })
    }

    fn answer(&self, record: &Record, fetched: &Fetched) -> Result<Step, Unusable> {
        let wrong = |detail: String| Unusable { reason: "not_a_request", detail };
        let value = record.value.clone().ok_or_else(|| wrong("the record has no value".into()))?;
        let request = Resymbolicate::decode(value).map_err(|e| wrong(e.to_string()))?;
        let id = request.report().map_err(|e| wrong(e.to_string()))?;
        match self.worker.tenants.standing(&id.tenant) {
            Standing::Active | Standing::Suspended | Standing::Unknown => {}
            Standing::Deleted => {
                return Ok(self.terminal(record, &request, &id, Outcome::DroppedDeleted));
            }
        }
        let stored = match &request.body {
            Some(Body::InlineLz4(compressed)) => {
                let limit = self.worker.output_bytes;
                body::decompress(compressed, limit).map_err(|e| wrong(e.to_string()))?
            }
            Some(Body::Segment(segment)) => {
                let detail = format!("the body lies in {}, and this version reads no segments", segment.key);
                return Err(Unusable { reason: "unsupported_body", detail });
            }
            None => return Ok(self.terminal(record, &request, &id, Outcome::SourceGone)),
        };
        let limits = ReadLimits { max_bytes: self.worker.output_bytes, ..self.worker.limits };
        let report = Report::read(&stored, &limits)
            .map_err(|e| Unusable { reason: e.reason(), detail: e.to_string() })?;
        let newest = generations(&request).map_err(wrong)?;
        let at_least = |need: &Need| newest.get(&need.debug_id).copied().unwrap_or_default();
        let plan = Plan::new(&report);
        let wanted = Wanted::of(&id.tenant, &plan.needs(), at_least);
        let Some(answers) = self.worker.symbols.at_hand(&wanted, fetched) else {
            return Ok(Step::Wants(wanted));
        };
        let traceparent = match request.traceparent.as_str() {
            "" => self.worker.traceparent(record),
            stored => unslide_proto::trace::TraceContext::continued(Some(stored), &self.worker.ids).header(),
        };
        let history = History { source: record, position: None, origin: request.origin.clone(), traceparent };
        let context = Context {
            tenant: Some(&id.tenant),
            revision: Some(request.revision),
            supersedes: Some(request.supersedes),
            processed_at: Some(self.worker.clock.now()),
            ..Context::default()
        };
        let (enriched, output) =
            self.worker.output(&plan, &id, &answers, &history, context).map_err(|too_large| Unusable {
                reason: "too_large",
                detail: format!("the smallest output has {} bytes", too_large.bytes),
            })?;
        let new = output.value.as_deref().unwrap_or_default();
        if !is_better(&report, &enriched, new, &limits) {
            return Ok(self.terminal(record, &request, &id, Outcome::Unchanged));
        }
        self.worker.metrics.symbolicated(&enriched);
        Ok(Step::Done(Done {
            source: record.at.clone(),
            outputs: vec![output],
            outcomes: vec![(id.tenant.to_string(), Outcome::Symbolicated)],
        }))
    }

    fn terminal(
        &self,
        record: &Record,
        request: &Resymbolicate,
        id: &Scoped<ReportId>,
        outcome: Outcome,
    ) -> Step {
        let end = TerminalOutcome {
            tenant: id.tenant.to_string(),
            report_id: request.report_id.clone(),
            revision: request.revision,
            outcome: outcome.into(),
            origin: request.origin.clone(),
            source: Some(reference(&record.at)),
        };
        Step::Done(Done {
            source: record.at.clone(),
            outputs: vec![self.ledger.terminal(end, self.worker.clock.now_micros())],
            outcomes: vec![(id.tenant.to_string(), outcome)],
        })
    }
}

/// The generations that the request was made for.
fn generations(request: &Resymbolicate) -> Result<HashMap<DebugId, Generations>, String> {
    let mut newest: HashMap<DebugId, Generations> = HashMap::with_capacity(request.needs.len());
    for need in &request.needs {
        let known = newest.entry(need.id().map_err(|e| e.to_string())?).or_default();
        let of = if need.system { &mut known.system } else { &mut known.tenant };
        *of = (*of).max(Some(need.generation));
    }
    Ok(newest)
}

/// True where the new answer says more of the frames than the stored one did: it differs before our
/// member of the report object, and no fewer frames have a function.
fn is_better(stored: &Report<'_>, enriched: &Enriched, new: &[u8], limits: &ReadLimits) -> bool {
    let Some(ours) = &stored.ours else { return true };
    let frames = |report: &Report<'_>| report.own_member.as_ref().map_or(report.insert_at, |own| own.start);
    let Ok(again) = Report::read(new, limits) else { return true };
    let same = stored.input[..frames(stored)] == new[..frames(&again)];
    !same && enriched.frames.symbolicated >= ours.frames.symbolicated
}

impl Processor for Again {
    fn prepare(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        Box::pin(async move {
            let lane = Arc::clone(&self);
            self.worker.run(batch, move |record, fetched| lane.look(record, fetched)).await
        })
    }

    fn refused(&self, record: &Record, why: &Refusal) -> Done {
        let (reason, detail) = crate::run::refusal(why);
        self.worker.dead_letter(record, self.worker.traceparent(record), "", reason, &detail)
    }

    fn account(&self, done: &[&Done]) -> Vec<OutRecord> {
        vec![self.ledger.batch(done, self.worker.clock.now_micros())]
    }

    fn committed(&self, records: &[&Record], done: &[&Done]) {
        self.worker.metrics.committed(NAME, records, done, self.worker.clock.now_micros());
    }
}
