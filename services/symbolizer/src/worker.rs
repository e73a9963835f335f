//! What the lanes of one worker have in common.

use crate::account::Ledger;
use crate::bodies::{self, Body};
use crate::entry::Entry;
use crate::letters::{History, Letters};
use crate::metrics::Metrics;
use crate::outputs::Outputs;
use crate::signatures::Signatures;
use crate::symbols::{Answers, Fetched, Symbols, Wanted};
use crate::tenants::{Limits, Tenants};
use futures::{StreamExt, stream};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::{ObjectStore, StoreError};
use unslide_model::{Clock, ReportId, Scoped, TenantId};
use unslide_proto::Message;
use unslide_proto::headers;
use unslide_proto::report::Resymbolicate;
use unslide_proto::topics::TopicNames;
use unslide_proto::trace::{Ids, TraceContext};
use unslide_report::ReadLimits;
use unslide_runtime::{CpuPool, Job};
use unslide_stream::lane::{Done, Pause};
use unslide_stream::{OutRecord, Record};
use unslide_symbolicate::{Context, Enriched, ImageSymbols, Plan};

/// Bytes of an output's key and headers at most.
const HEADER_BYTES: usize = 4 << 10;

/// Bodies that a batch stores at the same time.
const STORES_AT_ONCE: usize = 8;

/// A worker: what its lanes use.
pub struct Worker {
    /// The worker slot's name.
    pub slot: String,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Whose reports are taken.
    pub tenants: Arc<Tenants>,
    /// Who may send them.
    pub signatures: Signatures,
    /// The symcaches.
    pub symbols: Symbols,
    /// Where bodies go that are too large for Kafka.
    pub objects: ObjectStore,
    /// The installation's topics.
    pub topics: TopicNames,
    /// True where tenants may have topics of their own.
    pub tenant_topics: bool,
    /// Which of these can be answered.
    pub outputs: Outputs,
    /// Bounds of a report.
    pub limits: ReadLimits,
    /// The largest output, in bytes of key, headers and value.
    pub output_bytes: usize,
    /// Once a batch's outputs have so many bytes, its other records wait for the next transaction.
    pub most_outputs: usize,
    /// Where dead letters go; the topics of copies take as much.
    pub letters: Letters,
    /// Reports a second of a tenant that has no limit of its own; 0: as many as come.
    pub tenant_reports_per_second: u32,
    /// Records a second that step behind the others in a partition of overflow; 0: none.
    pub overflow_copies_per_second: u32,
    /// Ids of spans.
    pub ids: Ids,
    /// The figures.
    pub metrics: Metrics,
}

/// What one look at a record came to.
pub enum Step {
    /// It is done, once these bodies are stored.
    Done(Done, Vec<Body>),
    /// These symbols are wanted first.
    Wants(Vec<Wanted>),
}

/// A record whose step is awaited.
enum Ahead {
    Known(Step),
    Job(Job<Step>),
}

impl Step {
    /// Bytes of what is to be written.
    fn bytes(&self) -> usize {
        match self {
            Step::Done(done, bodies) => {
                let outputs = done.outputs.iter().map(OutRecord::size).sum::<usize>();
                outputs + bodies.iter().map(|body| body.bytes.len()).sum::<usize>()
            }
            Step::Wants(_) => 0,
        }
    }
}

impl From<Done> for Step {
    fn from(done: Done) -> Step {
        Step::Done(done, Vec::new())
    }
}

/// How a lane looks at its records. Runs on the CPU pool.
pub trait Look: Send + Sync + 'static {
    /// Looks at a record: for the first time, or with everything that it wanted then, and whatever
    /// became of that. The second time it has to come to an end.
    fn look(&self, record: &Record, fetched: Option<&Fetched>) -> Step;

    /// The end of a record one of whose bodies could not be stored for now.
    fn not_stored(&self, record: &Record, why: &str) -> Done;
}

/// What a lane has of the machine.
#[derive(Clone)]
pub struct Means {
    /// Its class of the CPU pool.
    pub cpu: CpuPool,
    /// How long a batch waits for symcaches.
    pub patience: Duration,
}

/// An enriched report as it is written.
pub struct Output {
    /// What was found.
    pub enriched: Enriched,
    /// The record.
    pub record: OutRecord,
    /// The report, where the record only refers to it.
    pub body: Option<Body>,
}

impl Output {
    /// The enriched report.
    pub fn bytes(&self) -> &[u8] {
        let whole = self.record.value.as_deref().unwrap_or_default();
        self.body.as_ref().map_or(whole, |body| &body.bytes)
    }
}

impl Worker {
    /// The trace that a record's outputs continue.
    pub fn traceparent(&self, record: &Record) -> String {
        TraceContext::continued(record.headers.text(headers::TRACEPARENT), &self.ids).header()
    }

    /// A tenant's reports a second over all partitions; `None`: as many as come.
    pub fn rate(&self, limits: Limits) -> Option<f64> {
        let own = limits.reports_per_second;
        let rate = if own == 0 { self.tenant_reports_per_second } else { own };
        (rate > 0).then_some(f64::from(rate))
    }

    /// The topic of a report with this history. What comes from a tenant's own input goes to the tenant's
    /// own output. Where that was removed meanwhile, a copy or a request goes to the output of all, so
    /// that nobody else's waits for it; an input itself is not read then.
    fn output_topic(&self, tenant: &TenantId, history: &History<'_>) -> String {
        let origin = &history.origin.topic;
        let own = self.tenant_topics && self.topics.tenant_of_input(origin).as_ref() == Some(tenant);
        let first_hand = **origin == *history.source.at.topic;
        if own && (first_hand || self.outputs.has(tenant)) {
            self.topics.tenant_output(tenant)
        } else {
            self.topics.output.clone()
        }
    }

    /// Looks for the outputs of tenants from whose inputs the records of a batch came: whether one is
    /// there is not guessed by what was seen before it was made.
    ///
    /// # Errors
    /// [`Pause`] where Kafka does not tell.
    pub async fn seek_outputs<'r>(&self, batch: impl Iterator<Item = &'r Record>) -> Result<(), Pause> {
        if !self.tenant_topics {
            return Ok(());
        }
        let origins = batch.filter_map(|record| {
            let entry = Entry::of(record, &self.topics);
            if !entry.request && *record.at.topic != *self.topics.resymbolicate {
                return Some(entry.origin.topic);
            }
            Some(Resymbolicate::decode(record.value.clone()?).ok()?.origin?.topic)
        });
        self.outputs.seek(origins).await.map_err(|error| {
            let reason = format!("the topics of tenants can't be listed: {error}");
            Pause { reason, wait: Duration::from_secs(1) }
        })
    }

    /// True where these outputs are as many bytes as may be held.
    pub fn has_enough(&self, done: &[Done]) -> bool {
        done.iter().flat_map(|done| &done.outputs).map(OutRecord::size).sum::<usize>() >= self.most_outputs
    }

    /// Looks at every record of a batch on the CPU pool, fetches what any of them wants, looks again
    /// at those, and stores what has to be stored. Where the outputs are more than may be held, the
    /// first records are all that is done.
    ///
    /// # Errors
    /// [`Pause`] where nothing can be done for now, by no record's fault.
    pub async fn run<L: Look>(
        &self,
        means: &Means,
        look: &Arc<L>,
        records: Vec<Record>,
    ) -> Result<Vec<Done>, Pause> {
        let mut steps = Vec::with_capacity(records.len());
        self.looks(means, look, &records, None, &mut steps).await;
        let wanted: Vec<Wanted> = steps
            .iter()
            .filter_map(|step| if let Step::Wants(wanted) = step { Some(wanted) } else { None })
            .flatten()
            .cloned()
            .collect();
        if !wanted.is_empty() {
            let fetched = Arc::new(self.symbols.fetch(wanted, means.patience).await?);
            self.looks(means, look, &records, Some(&fetched), &mut steps).await;
        }
        let mut stores = Vec::with_capacity(records.len());
        for (step, record) in steps.into_iter().zip(&records) {
            stores.push(self.store(step, record, look));
        }
        stream::iter(stores).buffered(STORES_AT_ONCE).collect::<Vec<_>>().await.into_iter().collect()
    }

    /// Looks at the records that have no step yet, or that want what was fetched, in their order, until
    /// the outputs are as many bytes as may be held. What lies behind that is taken away.
    async fn looks<L: Look>(
        &self,
        means: &Means,
        look: &Arc<L>,
        records: &[Record],
        fetched: Option<&Arc<Fetched>>,
        steps: &mut Vec<Step>,
    ) {
        let last = if fetched.is_some() { steps.len() } else { records.len() };
        let mut known = std::mem::take(steps).into_iter();
        let mut ahead: VecDeque<Ahead> = VecDeque::new();
        // As many are done ahead as keep every thread at work.
        let (most_ahead, mut begun, mut bytes) = (means.cpu.threads() * 4, 0, 0);
        while bytes < self.most_outputs {
            while begun < last && ahead.len() < most_ahead {
                ahead.push_back(match known.next() {
                    Some(step @ Step::Done(..)) => Ahead::Known(step),
                    _ => Ahead::Job(submit(means, &records[begun], fetched, look)),
                });
                begun += 1;
            }
            let step = match ahead.pop_front() {
                Some(Ahead::Known(step)) => step,
                Some(Ahead::Job(job)) => finish(job).await,
                None => return,
            };
            bytes += step.bytes();
            steps.push(step);
        }
    }

    async fn store<L: Look>(&self, step: Step, record: &Record, look: &Arc<L>) -> Result<Done, Pause> {
        let Step::Done(done, bodies) = step else {
            let reason = "a record wants symbols after everything was fetched".to_owned();
            return Err(Pause { reason, wait: Duration::from_secs(1) });
        };
        for body in bodies {
            match bodies::store(&self.objects, &body).await {
                Ok(()) => self.metrics.body_stored(body.bytes.len()),
                Err(error) if error.is_operators_fault() => return Err(refused(&error)),
                Err(error) => return Ok(look.not_stored(record, &error.to_string())),
            }
        }
        Ok(done)
    }

    /// The planned report, enriched, as a record that the broker takes: with everything, else without the
    /// calls of threads that did not crash, else with functions' names alone as far as they fit, else as a
    /// reference to a body in object storage. No form grows beyond what the broker takes while it is
    /// written, unless the report itself and the statuses of its frames do.
    pub fn output(
        &self,
        plan: &Plan<'_, '_>,
        id: &Scoped<ReportId>,
        answers: &Answers,
        history: &History<'_>,
        context: Context<'_>,
    ) -> Output {
        let symbols = |id: &unslide_model::DebugId| -> Option<&ImageSymbols> { answers.get(id) };
        let revision = context.revision.unwrap_or(1);
        let topic = self.output_topic(&id.tenant, history);
        let fits = self.output_bytes.saturating_sub(HEADER_BYTES);
        let most_bytes = Some(context.most_bytes.map_or(fits, |most| most.min(fits)));
        let context = Context { most_bytes, ..context };
        let mut record = history.report(&topic, id, revision, context.supersedes, bytes::Bytes::new());
        let around = record.size();
        let is_taken = |bytes: usize| around + bytes <= self.output_bytes;
        let mut enriched = plan.enrich_fitting(&symbols, &context, is_taken);
        let bytes = bytes::Bytes::from(std::mem::take(&mut enriched.bytes));
        if is_taken(bytes.len()) {
            record.value = Some(bytes);
            return Output { enriched, record, body: None };
        }
        let (record, body) = bodies::apart(history, &topic, id, (revision, context.supersedes), bytes);
        Output { enriched, record, body: Some(body) }
    }

    /// The ledger of a lane.
    pub fn ledger(&self, lane: &'static str) -> Ledger {
        Ledger { topic: self.topics.ledger.clone(), lane, worker: self.slot.clone() }
    }
}

fn submit<L: Look>(
    means: &Means,
    record: &Record,
    fetched: Option<&Arc<Fetched>>,
    look: &Arc<L>,
) -> Job<Step> {
    let (record, fetched, look) = (record.clone(), fetched.cloned(), Arc::clone(look));
    means.cpu.submit(move || look.look(&record, fetched.as_deref()))
}

/// A job's result. A panic is passed on: the lane finds the record that is at fault.
async fn finish(job: Job<Step>) -> Step {
    match job.await {
        Ok(step) => step,
        Err(error) => std::panic::resume_unwind(Box::new(error.to_string())),
    }
}

fn refused(error: &StoreError) -> Pause {
    tracing::error!("a report that is too large for Kafka can't be stored: {error}");
    let reason = format!("a report that is too large for Kafka can't be stored: {}", error.without_key());
    Pause { reason, wait: Duration::from_secs(10) }
}
