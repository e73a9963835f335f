//! One batch of a lane: every record is processed on the CPU pool, and the symbols that any of them wants
//! are fetched.

use crate::admission::sender;
use crate::output::spans::{self, BatchFetch};
use crate::output::stored_reports::{self, Bodies};
use crate::source_record::SourceRecord;
use crate::symbols::patience::Patience;
use crate::symbols::{FetchedSymbols, Wanted};
use crate::worker::Worker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use unslide_runtime::{CpuJob, CpuPool};
use unslide_stream::lane::{Done, Pause, ProcessingStep};
use unslide_stream::{OutRecord, Record};

/// The result of processing one record once.
pub enum RecordStep {
    /// It is done.
    Done(Done),
    /// These symbols are wanted first.
    Wants(Vec<Wanted>),
}

/// A record with an awaited step.
enum Ahead {
    Known(RecordStep),
    Job(CpuJob<RecordStep>),
}

impl RecordStep {
    /// Bytes of what is to be written.
    fn bytes(&self) -> usize {
        match self {
            RecordStep::Done(done) => done.outputs.iter().map(OutRecord::size).sum(),
            RecordStep::Wants(_) => 0,
        }
    }

    /// Notes a step of the work on a record that is done.
    pub fn note(&mut self, step: ProcessingStep) {
        if let RecordStep::Done(done) = self {
            done.history.get_or_insert_default().steps.push(step);
        }
    }
}

impl From<Done> for RecordStep {
    fn from(done: Done) -> RecordStep {
        RecordStep::Done(done)
    }
}

/// How a lane processes its records. Runs on the CPU pool.
pub trait RecordProcessor: Send + Sync + 'static {
    /// Processes a record: for the first time, or with the results of fetching everything that it wanted
    /// then. The second time must not want more.
    fn process(&self, record: &Record, fetched: Option<&FetchedSymbols>) -> RecordStep;

    /// The lane has waited for symcaches while nothing else was there to do, in microseconds.
    fn idled(&self, _micros: i64) {}
}

/// What a lane works with.
#[derive(Clone)]
pub struct LaneResources {
    /// What the lanes have in common.
    pub worker: Arc<Worker>,
    /// Its class of the CPU pool.
    pub cpu: CpuPool,
    /// How long a batch waits for symcaches.
    pub patience: Patience,
}

impl LaneResources {
    /// Processes a batch in groups, each with the stored bodies that its requests point to, until the
    /// outputs are as many bytes as may be held. `processor` makes the processor of a group.
    ///
    /// # Errors
    /// [`Pause`] where nothing can be done for now, by no record's fault.
    pub async fn process_with_bodies<L: RecordProcessor>(
        &self,
        batch: Vec<Record>,
        is_request: impl Fn(&Record) -> bool,
        processor: impl Fn(Bodies) -> L,
    ) -> Result<Vec<Done>, Pause> {
        let mut done = Vec::with_capacity(batch.len());
        for records in stored_reports::groups(batch, &is_request) {
            let requests = records.iter().filter(|record| is_request(record));
            let bodies = stored_reports::fetch(&self.worker.objects, requests).await?;
            let (count, processor) = (records.len(), Arc::new(processor(bodies)));
            let processed = self.process_records(&processor, records).await?;
            let cut = processed.len() < count;
            done.extend(processed);
            if cut || self.has_enough(&done) {
                break;
            }
        }
        Ok(done)
    }

    /// True where these outputs are as many bytes as may be held.
    fn has_enough(&self, done: &[Done]) -> bool {
        done.iter().flat_map(|done| &done.outputs).map(OutRecord::size).sum::<usize>()
            >= self.worker.most_outputs
    }

    /// Processes every record of a batch on the CPU pool, fetches the symbols that any of them wants,
    /// and processes those records again. If the outputs have more bytes than may be held, only the first
    /// records are done.
    ///
    /// # Errors
    /// [`Pause`] where nothing can be done for now, by no record's fault.
    pub async fn process_records<L: RecordProcessor>(
        &self,
        processor: &Arc<L>,
        records: Vec<Record>,
    ) -> Result<Vec<Done>, Pause> {
        let mut steps = Vec::with_capacity(records.len());
        self.process_batch(processor, &records, None, &mut steps).await;
        let fetch = BatchFetch::begin(&self.worker, &steps);
        if let Some(fetched) = self.fetch(processor, &steps).await? {
            let fetch = fetch.map(|fetch| fetch.end(&self.worker));
            self.process_batch(processor, &records, Some(&fetched), &mut steps).await;
            fetch.into_iter().for_each(|fetch| fetch.note_in(&mut steps));
        }
        let done = steps.into_iter().map(|step| match step {
            RecordStep::Done(done) => Ok(done),
            RecordStep::Wants(_) => {
                let reason = "a record wants symbols after everything was fetched".to_owned();
                Err(Pause { reason, wait: Duration::from_secs(1) })
            }
        });
        done.collect()
    }

    /// Fetches what these steps want. The longer wait is for reports of one tenant that all lack symbols: then no
    /// tenant's finished report waits for the symbols of another.
    async fn fetch<L: RecordProcessor>(
        &self,
        processor: &Arc<L>,
        steps: &[RecordStep],
    ) -> Result<Option<Arc<FetchedSymbols>>, Pause> {
        let wants = steps
            .iter()
            .filter_map(|step| if let RecordStep::Wants(wanted) = step { Some(wanted) } else { None });
        let (all_want, wanted) = (wants.clone().count() == steps.len(), wants.flatten().cloned());
        let wanted: Vec<Wanted> = wanted.collect();
        let Some(first) = wanted.first() else { return Ok(None) };
        let of_one_tenant = wanted.iter().all(|other| other.id.tenant == first.id.tenant);
        let shortest = self.patience.shortest();
        let patience = if all_want && of_one_tenant { &self.patience } else { &shortest };
        let begun = self.worker.clock.monotonic();
        let fetched = self.worker.symbols.fetch(wanted, patience).await;
        let took = self.worker.clock.monotonic().saturating_sub(begun);
        let idled = took.saturating_sub(patience.least());
        processor.idled(i64::try_from(idled.as_micros()).unwrap_or(i64::MAX));
        fetched.map(|fetched| Some(Arc::new(fetched)))
    }

    /// Processes the records that have no step yet, or that want what was fetched, in their order, until
    /// the outputs are as many bytes as may be held. Steps of later records are dropped.
    async fn process_batch<L: RecordProcessor>(
        &self,
        processor: &Arc<L>,
        records: &[Record],
        fetched: Option<&Arc<FetchedSymbols>>,
        steps: &mut Vec<RecordStep>,
    ) {
        let last = if fetched.is_some() { steps.len() } else { records.len() };
        let mut known = std::mem::take(steps).into_iter();
        let mut ahead: VecDeque<Ahead> = VecDeque::new();
        // As many are done ahead as keep every thread at work.
        let (most_ahead, mut begun, mut bytes) = (self.cpu.threads() * 4, 0, 0);
        while bytes < self.worker.most_outputs {
            while begun < last && ahead.len() < most_ahead {
                ahead.push_back(match known.next() {
                    Some(step @ RecordStep::Done(_)) => Ahead::Known(step),
                    _ => Ahead::Job(self.submit(&records[begun], fetched, processor)),
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

    fn submit<L: RecordProcessor>(
        &self,
        record: &Record,
        fetched: Option<&Arc<FetchedSymbols>>,
        processor: &Arc<L>,
    ) -> CpuJob<RecordStep> {
        let tenant = sender::tenant_named(&self.worker, &SourceRecord::of(record, &self.worker.topics));
        let (record, fetched, processor) = (record.clone(), fetched.cloned(), Arc::clone(processor));
        let clock = self.worker.tracer.is_on().then(|| Arc::clone(&self.worker.clock));
        self.cpu.submit_for(tenant, move || match clock {
            None => processor.process(&record, fetched.as_deref()),
            Some(clock) => {
                let began_micros = clock.now_micros();
                let mut step = processor.process(&record, fetched.as_deref());
                let ended_micros = clock.now_micros();
                step.note(ProcessingStep { name: spans::SYMBOLICATE, began_micros, ended_micros });
                step
            }
        })
    }
}

/// A job's result. A panic is passed on: the lane finds the record that is at fault.
async fn finish(job: CpuJob<RecordStep>) -> RecordStep {
    match job.await {
        Ok(step) => step,
        Err(error) => std::panic::resume_unwind(Box::new(error.to_string())),
    }
}
