//! The resymbolicate lane: stored reports that newer symbols may make better.

use crate::account::{Ledger, reference};
use crate::entry::{Entry, Reason};
use crate::letters::History;
use crate::stored_bodies::{self, Bodies, Fetch, groups, key};
use crate::symbols::{self, Fetched, Generations, Wanted};
use crate::tenants::Standing;
use crate::tiers::Tier;
use crate::worker::{Look, Means, Step, Worker};
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use unslide_artifacts::segment::{Frame, MAX_BODY_BYTES};
use unslide_model::{DebugId, ReportId, Scoped};
use unslide_proto::report::resymbolicate::Body;
use unslide_proto::report::{Outcome, Resymbolicate, TerminalOutcome};
use unslide_proto::{Message, body, headers};
use unslide_report::{ReadLimits, Report};
use unslide_stream::lane::{Done, Pause, Processor, Refusal};
use unslide_stream::{OutRecord, Record};
use unslide_symbolicate::{Context, Enriched, ImageSymbols, Need, Plan};

/// The lane's name, also in its group and transactional id.
pub const NAME: &str = unslide_proto::lanes::RESYMBOLICATE;

/// Symbolicates stored reports again.
pub struct Again {
    worker: Arc<Worker>,
    ledger: Ledger,
}

/// The lane of the store's requests.
pub struct Requests {
    /// What it has of the machine.
    pub means: Means,
    again: Arc<Again>,
}

impl Requests {
    /// The lane of this worker.
    pub fn new(worker: Arc<Worker>, means: Means) -> Requests {
        Requests { means, again: Arc::new(Again::new(worker, NAME)) }
    }
}

/// Why a request can't be answered at all.
struct Unusable {
    reason: &'static str,
    detail: String,
}

impl Again {
    /// What this worker does with requests, on the lane that has this name.
    pub fn new(worker: Arc<Worker>, lane: &'static str) -> Again {
        Again { ledger: worker.ledger(lane), worker }
    }

    fn answer(&self, record: &Record, fetched: Option<&Fetched>, bodies: &Bodies) -> Result<Step, Unusable> {
        let entry = Entry::of(record, &self.worker.topics);
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
                // Stored reports may be larger than what the topic takes: see `Worker::output`.
                body::decompress(compressed, MAX_BODY_BYTES).map_err(|e| wrong(e.to_string()))?
            }
            Some(Body::Segment(segment)) => {
                key(&id.tenant, segment).map_err(|detail| Unusable { reason: "foreign_body", detail })?;
                let frame = match bodies.get(&record.at) {
                    Some(Fetch::Frame(frame)) => frame.clone(),
                    Some(Fetch::Failed(why)) => {
                        let (tenant, reason) = (&id.tenant, Reason::FetchFailed);
                        // After the last try the store is told, which asks again some time later.
                        let retried = self.worker.retry(&entry, tenant, None, reason, why).map(Step::from);
                        let over = || self.terminal(record, &request, &id, Outcome::SourceGone);
                        return Ok(retried.unwrap_or_else(over));
                    }
                    Some(Fetch::Gone) => {
                        let end = Self::end(record, &request, &id, Outcome::SourceGone);
                        let end = TerminalOutcome { segment: segment.key.clone(), ..end };
                        return Ok(self.ended(record, &request, end));
                    }
                    None => return Ok(self.terminal(record, &request, &id, Outcome::SourceGone)),
                };
                let read = Frame::read_of(frame, id.id, request.variant)
                    .and_then(|frame| frame.body(MAX_BODY_BYTES));
                match read {
                    Ok(body) => body,
                    Err(error) => {
                        // It may have been damaged on its way; what is stored so stays so.
                        let why = error.to_string();
                        let retried = self.worker.retry(&entry, &id.tenant, None, Reason::FetchFailed, &why);
                        let damaged = || Unusable { reason: "damaged_body", detail: why.clone() };
                        return retried.map(Step::from).ok_or_else(damaged);
                    }
                }
            }
            None => return Ok(self.terminal(record, &request, &id, Outcome::SourceGone)),
        };
        let max_bytes = self.worker.output_bytes.max(stored.len());
        let limits = ReadLimits { max_bytes, ..self.worker.limits };
        let report = Report::read(&stored, &limits)
            .map_err(|e| Unusable { reason: e.reason(), detail: e.to_string() })?;
        let newest = generations(&request).map_err(wrong)?;
        let at_least = |need: &Need| newest.get(&need.debug_id).copied().unwrap_or_default();
        let plan = Plan::new(&report);
        let wanted = Wanted::of(&id.tenant, &plan.needs(), at_least);
        // A request that no retry tier takes has its last try at once: where what can't be fetched then
        // would have made it better, the store is told so and asks again some time later.
        let last = Tier::after(entry.tries(Reason::FetchFailed) + 1).is_none()
            || record.size() + COPY_HEADERS > self.worker.letters.most_bytes;
        let answers = match self.worker.symbols.look(wanted, fetched, last) {
            symbols::Look::Answers(answers) => answers,
            symbols::Look::Wants(wanted) => return Ok(Step::Wants(wanted)),
            symbols::Look::Held(held) => {
                let why = held.failure.as_deref().unwrap_or("a symcache did not arrive in time");
                let (tenant, reason) = (&id.tenant, Reason::FetchFailed);
                let retried = self.worker.retry(&entry, tenant, Some(&held.id), reason, why);
                let no_room = || Unusable { reason: "too_large", detail: why.to_owned() };
                return retried.map(Step::from).ok_or_else(no_room);
            }
        };
        let traceparent = match request.traceparent.as_str() {
            "" => self.worker.traceparent(record),
            stored => unslide_proto::trace::TraceContext::continued(Some(stored), &self.worker.ids).header(),
        };
        let mut history = History::of(&entry, Some(&id.tenant), traceparent);
        if let Some(origin) = &request.origin {
            history.origin = origin.clone();
        }
        let context = Context {
            tenant: Some(&id.tenant),
            revision: Some(request.revision),
            supersedes: Some(request.supersedes),
            processed_at: Some(self.worker.clock.now()),
            ..Context::default()
        };
        let output = self.worker.output(&plan, &id, &answers, &history, context);
        if !is_better(&report, &output.enriched, output.bytes(), &limits) {
            let failed = answers.values().any(|symbols| matches!(symbols, ImageSymbols::FetchingFailed));
            let end = if failed { Outcome::FetchingFailed } else { Outcome::Unchanged };
            return Ok(self.terminal(record, &request, &id, end));
        }
        self.worker.metrics.symbolicated(&output.enriched);
        let done = Done {
            source: record.at.clone(),
            outputs: vec![of_variant(&request, output.record)],
            outcomes: vec![(id.tenant.to_string(), Outcome::Symbolicated)],
        };
        Ok(Step::Done(done, output.body.into_iter().collect()))
    }

    fn terminal(
        &self,
        record: &Record,
        request: &Resymbolicate,
        id: &Scoped<ReportId>,
        outcome: Outcome,
    ) -> Step {
        self.ended(record, request, Self::end(record, request, id, outcome))
    }

    fn end(
        record: &Record,
        request: &Resymbolicate,
        id: &Scoped<ReportId>,
        outcome: Outcome,
    ) -> TerminalOutcome {
        TerminalOutcome {
            tenant: id.tenant.to_string(),
            report_id: request.report_id.clone(),
            revision: request.revision,
            outcome: outcome.into(),
            origin: request.origin.clone(),
            source: Some(reference(&record.at)),
            segment: String::new(),
            requested_at_micros: request.requested_at_micros,
        }
    }

    fn ended(&self, record: &Record, request: &Resymbolicate, end: TerminalOutcome) -> Step {
        let outcomes = vec![(end.tenant.clone(), end.outcome())];
        let told = self.ledger.terminal(end, self.worker.clock.now_micros());
        Step::from(Done { source: record.at.clone(), outputs: vec![of_variant(request, told)], outcomes })
    }
}

impl Again {
    /// Looks at a request with the bodies that were fetched for its batch.
    pub fn look(&self, record: &Record, fetched: Option<&Fetched>, bodies: &Bodies) -> Step {
        self.answer(record, fetched, bodies).unwrap_or_else(|Unusable { reason, detail }| {
            let entry = Entry::of(record, &self.worker.topics);
            self.worker.dead_letter(&entry, None, reason, &detail).into()
        })
    }

    /// The end of a request whose answer could not be stored for now.
    pub fn not_stored(&self, record: &Record, why: &str) -> Done {
        let entry = Entry::of(record, &self.worker.topics);
        let request = record.value.clone().and_then(|value| Resymbolicate::decode(value).ok());
        let tenant = request.and_then(|request| Some(request.report().ok()?.tenant));
        let retried =
            tenant.as_ref().and_then(|t| self.worker.retry(&entry, t, None, Reason::NotStored, why));
        retried.unwrap_or_else(|| self.worker.dead_letter(&entry, tenant.as_ref(), "too_large", why))
    }
}

/// Requests, and the bodies that were fetched for them.
struct Group {
    again: Arc<Again>,
    bodies: Bodies,
}

impl Look for Group {
    fn look(&self, record: &Record, fetched: Option<&Fetched>) -> Step {
        self.again.look(record, fetched, &self.bodies)
    }

    fn not_stored(&self, record: &Record, why: &str) -> Done {
        self.again.not_stored(record, why)
    }
}

/// More than the headers of a copy have in bytes.
const COPY_HEADERS: usize = 8 << 10;

/// The answer, which says of which of the reports with this id it is.
fn of_variant(request: &Resymbolicate, answer: OutRecord) -> OutRecord {
    match request.variant {
        0 => answer,
        variant => answer.header(headers::VARIANT, variant.to_string()),
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

impl Processor for Requests {
    fn prepare(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        Box::pin(async move {
            let worker = &self.again.worker;
            worker.seek_outputs(batch.iter()).await?;
            let mut done = Vec::with_capacity(batch.len());
            for records in groups(batch, |_| true) {
                let bodies = stored_bodies::fetch(&worker.objects, records.iter()).await?;
                let group = Arc::new(Group { again: self.again.clone(), bodies });
                let asked = records.len();
                let some = worker.run(&self.means, &group, records).await?;
                let cut = some.len() < asked;
                done.extend(some);
                if cut || worker.has_enough(&done) {
                    break;
                }
            }
            Ok(done)
        })
    }

    fn refused(&self, record: &Record, why: &Refusal) -> Done {
        let (reason, detail) = crate::run::refusal(why);
        let worker = &self.again.worker;
        worker.dead_letter(&Entry::of(record, &worker.topics), None, reason, &detail)
    }

    fn account(&self, done: &[&Done]) -> Vec<OutRecord> {
        vec![self.again.ledger.batch(done, self.again.worker.clock.now_micros())]
    }

    fn committed(&self, records: &[&Record], done: &[&Done]) {
        let worker = &self.again.worker;
        worker.metrics.committed(NAME, records, done, worker.clock.now_micros());
    }
}
