//! The resymbolicate lane: processes stored reports again that newer symbols may improve.

use crate::admission::tenants::TenantStatus;
use crate::enricher::{OutputError, ReportOutput};
use crate::lanes::batch::{LaneResources, RecordProcessor, RecordStep};
use crate::output::dead_letters::{Provenance, describe_refusal};
use crate::output::ledger::Ledger;
use crate::output::outcomes;
use crate::output::passing::{self, OtherCell};
use crate::output::spans::LaneSpans;
use crate::output::stored_reports::{Bodies, Fetch, segment_key};
use crate::retry_tiers::Tier;
use crate::source_record::{Reason, SourceRecord, to_reference};
use crate::symbols::{self, Answers, FetchedSymbols, Generations, Wanted};
use crate::worker::Worker;
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use unslide_artifacts::segment::{self, BodyId, MAX_BODY_BYTES};
use unslide_model::{BodyKey, ContentHash, DebugId, ReportId, Scoped};
use unslide_proto::report::resymbolicate::Body;
use unslide_proto::report::{Outcome, Resymbolicate, TerminalOutcome};
use unslide_proto::{Message, body, headers};
use unslide_report::reader::ReportDocument;
use unslide_report::{Ours, ReadError, ReadLimits, Report};
use unslide_runtime::job_bytes;
use unslide_stream::lane::{Done, Pause, ProcessingHistory, Processor, Refusal};
use unslide_stream::{OutRecord, Record};
use unslide_symbolicate::{Context, ImageSymbols, Plan};

/// The lane's name, also in its group and transactional id.
pub const RESYMBOLICATE_LANE: &str = unslide_proto::lanes::RESYMBOLICATE;

pub struct ResymbolicateRecord {
    worker: Arc<Worker>,
    ledger: Ledger,
}

/// The lane for the store's requests.
pub struct Requests {
    pub resources: LaneResources,
    again: Arc<ResymbolicateRecord>,
    spans: LaneSpans,
}

impl Requests {
    /// Creates the resymbolicate lane of a worker.
    pub fn new(resources: LaneResources) -> Requests {
        let again = ResymbolicateRecord::new(Arc::clone(&resources.worker), RESYMBOLICATE_LANE);
        let spans = LaneSpans::new(&resources.worker.traces, RESYMBOLICATE_LANE);
        Requests { resources, again: Arc::new(again), spans }
    }
}

/// Reason why a request ends without an improved report.
enum Ended {
    /// The request ends with this step.
    Step(RecordStep),
    /// The request becomes a dead letter, since it can never be answered.
    Unusable { reason: &'static str, detail: String },
}

impl Ended {
    fn not_a_request(detail: String) -> Ended {
        Ended::Unusable { reason: "not_a_request", detail }
    }
}

struct Request<'r> {
    entry: SourceRecord<'r>,
    record: &'r Record,
    content: Resymbolicate,
    id: Scoped<ReportId>,
}

impl ResymbolicateRecord {
    /// Creates the processor of requests for the lane with this name.
    pub fn new(worker: Arc<Worker>, lane: &'static str) -> ResymbolicateRecord {
        ResymbolicateRecord { ledger: worker.outcomes.lane_ledger(lane), worker }
    }

    fn answer_request(
        &self,
        record: &Record,
        fetched: Option<&FetchedSymbols>,
        bodies: &Bodies,
    ) -> Result<RecordStep, Ended> {
        let request = self.read_request(record)?;
        let stored = self.stored_body(&request, bodies)?;
        job_bytes(stored.len());
        let limits = ReadLimits {
            max_bytes: self.worker.enricher.output_bytes.max(stored.len()),
            ..self.worker.enricher.limits
        };
        let unusable = |e: ReadError| Ended::Unusable { reason: e.reason(), detail: e.to_string() };
        let source = self.worker.enricher.readers.open(&stored, &limits).map_err(unusable)?;
        let report = Report::read(source.json(), &limits).map_err(unusable)?;
        let plan = Plan::new(&report);
        let answers = self.look_up_symbols(&request, &plan, fetched)?;
        let output = self
            .build_output(&request, &source, &plan, &answers)
            .map_err(|e| Ended::Unusable { reason: e.reason(), detail: e.to_string() })?;
        if !is_better(&report, &output, &answers, &limits) {
            let failed =
                answers.symbols.values().any(|symbols| matches!(symbols, ImageSymbols::FetchingFailed));
            let end = if failed { Outcome::FetchingFailed } else { Outcome::Unchanged };
            return Ok(self.end_with_outcome(&request, end));
        }
        self.worker.metrics.count_frames(&output.enriched);
        let history = self.worker.traces.tracer.is_on().then(|| {
            Box::new(ProcessingHistory { app: report.summary().app, ..ProcessingHistory::default() })
        });
        let done = Done {
            source: record.at.clone(),
            outputs: vec![with_content_hash(&request.content, with_variant(&request.content, output.record))],
            outcomes: vec![(request.id.tenant.to_string(), Outcome::Symbolicated)],
            history,
        };
        Ok(done.into())
    }

    /// Reads the request, and ends it if its tenant was deleted or has moved to another cell.
    fn read_request<'r>(&self, record: &'r Record) -> Result<Request<'r>, Ended> {
        let value =
            record.value.clone().ok_or_else(|| Ended::not_a_request("the record has no value".to_owned()))?;
        let content = Resymbolicate::decode(value).map_err(|e| Ended::not_a_request(e.to_string()))?;
        let id = content.parse_report_id().map_err(|e| Ended::not_a_request(e.to_string()))?;
        let request =
            Request { entry: SourceRecord::from_record(record, &self.worker.topics), record, content, id };
        let tenant = &request.id.tenant;
        if let Some(prefix) = self.worker.senders.tenants.moved_to(tenant) {
            let cell = OtherCell { tenant: tenant.clone(), prefix };
            let end = build_terminal(&request, Outcome::PassedOn);
            let done = passing::pass_on(&self.worker.outcomes, &request.entry, &cell, self.ledger.lane, end);
            return Err(Ended::Step(done.into()));
        }
        match self.worker.senders.tenants.status(tenant) {
            TenantStatus::Active | TenantStatus::Suspended | TenantStatus::Unknown => Ok(request),
            TenantStatus::Deleted => {
                Err(Ended::Step(self.end_with_outcome(&request, Outcome::DroppedDeleted)))
            }
        }
    }

    /// Returns the stored report, from the request itself or from the segment that it names.
    fn stored_body(&self, request: &Request<'_>, bodies: &Bodies) -> Result<Vec<u8>, Ended> {
        let gone = || Ended::Step(self.end_with_outcome(request, Outcome::SourceGone));
        let segment = match &request.content.body {
            // The limit of the topic may have been larger when the report was stored.
            Some(Body::InlineLz4(compressed)) => {
                return body::decompress_report(compressed, MAX_BODY_BYTES)
                    .map_err(|e| Ended::not_a_request(e.to_string()));
            }
            Some(Body::Segment(segment)) => segment,
            None => return Err(gone()),
        };
        segment_key(&request.id.tenant, segment)
            .map_err(|detail| Ended::Unusable { reason: "foreign_body", detail })?;
        let frame = match bodies.get(&request.record.at) {
            Some(Fetch::Frame(frame)) => frame.clone(),
            // After the last try the store is notified; it requests again some time later.
            Some(Fetch::Failed(why)) => {
                return Err(self.retry_request(request, None, why).map_or_else(gone, Ended::Step));
            }
            Some(Fetch::Gone) => {
                let end = TerminalOutcome {
                    segment: segment.key.clone(),
                    ..build_terminal(request, Outcome::SourceGone)
                };
                return Err(Ended::Step(self.end_request(request, end)));
            }
            None => return Err(gone()),
        };
        let body = BodyId {
            tenant: request.id.tenant.clone(),
            report_id: request.id.id,
            variant: request.content.variant,
            revision: segment.revision,
        };
        // A key of another length decrypts no body.
        let body_key = BodyKey(segment.body_key.as_ref().try_into().unwrap_or_default());
        let read = segment::open_frame(&body, &body_key, frame, MAX_BODY_BYTES);
        // The body may have been damaged in transfer. If it is stored damaged, retries will fail too.
        read.map_err(|error| {
            let detail = error.to_string();
            let retried = self.retry_request(request, None, &detail);
            retried.map_or(Ended::Unusable { reason: "damaged_body", detail }, Ended::Step)
        })
    }

    /// Returns the symbols of the report's images, at least of the generations that the request was made for.
    fn look_up_symbols(
        &self,
        request: &Request<'_>,
        plan: &Plan<'_, '_>,
        fetched: Option<&FetchedSymbols>,
    ) -> Result<Answers, Ended> {
        let newest = read_generations(&request.content).map_err(Ended::not_a_request)?;
        let at_least = |id: &DebugId| newest.get(id).copied().unwrap_or_default();
        let tenant = &request.id.tenant;
        let wanted = Wanted::for_report(tenant, plan, &self.worker.enricher.list_analyses(tenant), at_least);
        // A request that no retry tier accepts has its last try at once. If it fails for symbols that would
        // have improved the report, the store is notified and requests again some time later.
        let last = Tier::after_tries(request.entry.failed_tries(Reason::FetchFailed) + 1).is_none()
            || request.record.size() + COPY_HEADERS > self.worker.outcomes.letters.most_bytes;
        match self.worker.enricher.symbols.look_up_symbols(wanted, fetched, last) {
            symbols::Lookup::Answers(answers) => Ok(answers),
            symbols::Lookup::Wants(wanted) => Err(Ended::Step(RecordStep::Wants(wanted))),
            symbols::Lookup::Held(held) => {
                let why = held.describe_reason();
                let too_large = || Ended::Unusable { reason: "too_large", detail: why.to_owned() };
                Err(self.retry_request(request, Some(&held.id), why).map_or_else(too_large, Ended::Step))
            }
        }
    }

    fn build_output(
        &self,
        request: &Request<'_>,
        source: &ReportDocument<'_>,
        plan: &Plan<'_, '_>,
        answers: &Answers,
    ) -> Result<ReportOutput, OutputError> {
        let Request { entry, record, content, id } = request;
        let traceparent = match content.traceparent.as_str() {
            "" => self.worker.traces.traceparent(record),
            stored => self.worker.traces.continue_trace(Some(stored)).format_header(),
        };
        let mut provenance = Provenance::from_record(entry, Some(&id.tenant), traceparent);
        if let Some(origin) = &content.origin {
            provenance.origin = origin.clone();
        }
        let context = Context {
            tenant: Some(&id.tenant),
            revision: Some(content.revision),
            supersedes: Some(content.supersedes),
            processed_at: Some(self.worker.clock.now()),
            ..Context::default()
        };
        self.worker.enricher.build_output(source, plan, id, answers, &provenance, context)
    }

    /// Sends the request to the next retry tier. Returns `None` if no tier accepts it.
    fn retry_request(&self, request: &Request<'_>, id: Option<&DebugId>, why: &str) -> Option<RecordStep> {
        let tenant = &request.id.tenant;
        outcomes::send_to_retry(&self.worker.outcomes, &request.entry, tenant, id, Reason::FetchFailed, why)
            .map(RecordStep::from)
    }

    fn end_with_outcome(&self, request: &Request<'_>, outcome: Outcome) -> RecordStep {
        self.end_request(request, build_terminal(request, outcome))
    }

    fn end_request(&self, request: &Request<'_>, end: TerminalOutcome) -> RecordStep {
        let outcomes = vec![(end.tenant.clone(), end.outcome())];
        let entry = self.ledger.build_terminal(end, self.worker.clock.now_micros());
        let outputs = vec![with_variant(&request.content, entry)];
        RecordStep::from(Done { source: request.record.at.clone(), outputs, outcomes, history: None })
    }

    /// Processes a request with the bodies that were fetched for its batch.
    pub fn process_request(
        &self,
        record: &Record,
        fetched: Option<&FetchedSymbols>,
        bodies: &Bodies,
    ) -> RecordStep {
        self.answer_request(record, fetched, bodies).unwrap_or_else(|ended| match ended {
            Ended::Step(step) => step,
            Ended::Unusable { reason, detail } => {
                let entry = SourceRecord::from_record(record, &self.worker.topics);
                outcomes::dead_letter(&self.worker.outcomes, &entry, None, reason, &detail).into()
            }
        })
    }
}

/// A group of requests and the bodies that were fetched for them.
struct Group {
    again: Arc<ResymbolicateRecord>,
    bodies: Bodies,
}

impl RecordProcessor for Group {
    fn process(&self, record: &Record, fetched: Option<&FetchedSymbols>) -> RecordStep {
        self.again.process_request(record, fetched, &self.bodies)
    }
}

fn build_terminal(request: &Request<'_>, outcome: Outcome) -> TerminalOutcome {
    TerminalOutcome {
        tenant: request.id.tenant.to_string(),
        report_id: request.content.report_id.clone(),
        revision: request.content.revision,
        outcome: outcome.into(),
        origin: request.content.origin.clone(),
        source: Some(to_reference(&request.record.at)),
        segment: String::new(),
        requested_at_micros: request.content.requested_at_micros,
        passed_to: String::new(),
    }
}

/// Upper bound for the size of a copy's headers, in bytes.
const COPY_HEADERS: usize = 8 << 10;

/// Adds the variant to the answer, which tells apart the reports with this id.
fn with_variant(request: &Resymbolicate, answer: OutRecord) -> OutRecord {
    match request.variant {
        0 => answer,
        variant => answer.header(headers::VARIANT, variant.to_string()),
    }
}

/// Adds the hash of the report as it first arrived, if the request carries it.
fn with_content_hash(request: &Resymbolicate, answer: OutRecord) -> OutRecord {
    match request.content_hash.as_ref().try_into() {
        Ok(hash) => answer.header(headers::CONTENT_HASH, ContentHash(hash).to_string()),
        Err(_) => answer,
    }
}

/// Returns the generations that the request was made for.
fn read_generations(request: &Resymbolicate) -> Result<HashMap<DebugId, Generations>, String> {
    let mut newest: HashMap<DebugId, Generations> = HashMap::with_capacity(request.needs.len());
    for need in &request.needs {
        let known = newest.entry(need.parse_debug_id().map_err(|e| e.to_string())?).or_default();
        let of = if need.system { &mut known.system } else { &mut known.tenant };
        *of = (*of).max(Some(need.generation));
    }
    Ok(newest)
}

/// Returns true if the new report says more about the frames than the stored one. It must differ before our
/// member of the report object, or in the JavaScript frames, the variables or the findings that this member holds. It
/// must not have fewer frames with a function.
fn is_better(stored: &Report<'_>, output: &ReportOutput, answers: &Answers, limits: &ReadLimits) -> bool {
    let (enriched, new) = (&output.enriched, output.json());
    let Some(ours) = &stored.ours else { return true };
    let frames = |report: &Report<'_>| report.own_member.as_ref().map_or(report.insert_at, |own| own.start);
    let Ok(again) = Report::read(new, limits) else { return true };
    let has_same_findings = |again: &Ours| {
        answers.lacks_derived || (again.variables == ours.variables && again.findings == ours.findings)
    };
    let same = stored.input[..frames(stored)] == new[..frames(&again)]
        && again
            .ours
            .as_ref()
            .is_some_and(|again| again.javascript == ours.javascript && has_same_findings(again));
    !same && enriched.frames.symbolicated >= ours.frames.symbolicated
}

impl Processor for Requests {
    fn prepare_batch(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        Box::pin(async move {
            let worker = &self.again.worker;
            worker.look_up_cell_topics(&batch).await?;
            worker.enricher.seek_outputs(batch.iter()).await?;
            let group = |bodies| Group { again: self.again.clone(), bodies };
            self.resources.process_with_bodies(batch, |_| true, group).await
        })
    }

    fn refuse_record(&self, record: &Record, why: &Refusal) -> Done {
        let (reason, detail) = describe_refusal(why);
        let worker = &self.again.worker;
        outcomes::dead_letter(
            &worker.outcomes,
            &SourceRecord::from_record(record, &worker.topics),
            None,
            reason,
            &detail,
        )
    }

    fn account_records(&self, done: &[&Done]) -> Vec<OutRecord> {
        self.spans.begin_commit();
        vec![self.again.ledger.build_batch(done, self.again.worker.clock.now_micros())]
    }

    fn on_committed(&self, records: &[&Record], done: &[&Done]) {
        let worker = &self.again.worker;
        worker.metrics.record_committed(RESYMBOLICATE_LANE, records, done, worker.clock.now_micros());
        self.spans.export_spans(records, done);
    }
}
