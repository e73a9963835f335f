//! One batch of a lane: processes every record on the CPU pool and fetches the symbols that any of them
//! needs.

use crate::admission::sender;
use crate::output::spans;
use crate::output::stored_reports::{self, Bodies, Fetch};
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

/// Name of the step in which a record waits for symcaches.
const FETCH_STEP: &str = "fetch symbols";

/// The result of processing one record once.
pub enum RecordStep {
    Done(Done),
    /// These symbols are needed first.
    Wants(Vec<Wanted>),
}

/// The records of a batch that wait for symcaches, with the start of the wait.
struct BatchFetch {
    waiting: Vec<usize>,
    step: ProcessingStep,
}

impl BatchFetch {
    /// Notes the records that want symcaches. Returns `None` if spans are not exported.
    fn begin(worker: &Worker, steps: &[RecordStep]) -> Option<BatchFetch> {
        if !worker.traces.tracer.is_on() {
            return None;
        }
        let wants =
            |(index, step): (usize, &RecordStep)| matches!(step, RecordStep::Wants(_)).then_some(index);
        let now = worker.clock.now_micros();
        let step = ProcessingStep { name: FETCH_STEP, began_micros: now, ended_micros: now };
        Some(BatchFetch { waiting: steps.iter().enumerate().filter_map(wants).collect(), step })
    }

    /// Records the end of the wait.
    fn end_wait(mut self, worker: &Worker) -> BatchFetch {
        self.step.ended_micros = worker.clock.now_micros();
        self
    }

    /// Adds the step to the records that waited.
    fn note_in(self, steps: &mut [RecordStep]) {
        for index in self.waiting {
            if let Some(step) = steps.get_mut(index) {
                step.record_step(self.step.clone());
            }
        }
    }
}

/// A step that is known, or a job that computes it.
enum Ahead {
    Known(RecordStep),
    Job(CpuJob<RecordStep>),
}

impl RecordStep {
    /// Returns the size of the outputs in bytes.
    fn output_bytes(&self) -> usize {
        match self {
            RecordStep::Done(done) => done.outputs.iter().map(OutRecord::size).sum(),
            RecordStep::Wants(_) => 0,
        }
    }

    /// Adds a step to the history of a record that is done.
    pub fn record_step(&mut self, step: ProcessingStep) {
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

/// Processes the records of a lane. Runs on the CPU pool.
pub trait RecordProcessor: Send + Sync + 'static {
    /// Processes a record, the first time without symbols. The second time `fetched` has the results for
    /// everything that the record wanted, and it must not want more.
    fn process(&self, record: &Record, fetched: Option<&FetchedSymbols>) -> RecordStep;

    /// Records for how many microseconds the lane waited for symcaches while no other records waited.
    fn record_idle(&self, _micros: i64) {}
}

/// Shared resources of one lane: the worker, its class of the CPU pool and its time limit for symcaches.
#[derive(Clone)]
pub struct LaneResources {
    /// The worker, shared by all lanes.
    pub worker: Arc<Worker>,
    /// The lane's class of the CPU pool.
    pub cpu: CpuPool,
    /// Time that a batch waits for symcaches.
    pub patience: Patience,
}

impl LaneResources {
    /// Processes a batch in groups, each with the stored bodies that its requests point to. Stops when the
    /// outputs reach the size limit of a transaction. `processor` makes the processor of a group.
    ///
    /// # Errors
    /// Returns [`Pause`] if no record can be processed for now and no record is the cause.
    pub async fn process_with_bodies<L: RecordProcessor>(
        &self,
        batch: Vec<Record>,
        is_request: impl Fn(&Record) -> bool,
        processor: impl Fn(Bodies) -> L,
    ) -> Result<Vec<Done>, Pause> {
        let mut done = Vec::with_capacity(batch.len());
        for records in stored_reports::split_groups(batch, &is_request) {
            let requests = records.iter().filter(|record| is_request(record));
            let bodies = stored_reports::fetch_bodies(&self.worker.objects, requests).await?;
            if bodies.values().any(|body| matches!(body, Fetch::Failed(_))) {
                self.worker.enricher.symbols.check_store("a stored report cannot be fetched").await?;
            }
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

    /// Returns true if these outputs reach the size limit of a transaction.
    fn has_enough(&self, done: &[Done]) -> bool {
        done.iter().flat_map(|done| &done.outputs).map(OutRecord::size).sum::<usize>()
            >= self.worker.most_outputs
    }

    /// Processes every record of a batch on the CPU pool, fetches the symbols that any of them wants, and
    /// processes those records again. If the outputs reach the size limit of a transaction, only the first
    /// records are done.
    ///
    /// # Errors
    /// Returns [`Pause`] if no record can be processed for now and no record is the cause.
    pub async fn process_records<L: RecordProcessor>(
        &self,
        processor: &Arc<L>,
        records: Vec<Record>,
    ) -> Result<Vec<Done>, Pause> {
        let mut steps = Vec::with_capacity(records.len());
        self.process_batch(processor, &records, None, &mut steps).await;
        let fetch = BatchFetch::begin(&self.worker, &steps);
        if let Some(fetched) = self.fetch_symbols(processor, &steps).await? {
            let fetch = fetch.map(|fetch| fetch.end_wait(&self.worker));
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

    /// Fetches the symbols that these steps want. The longer time limit applies only if all reports lack
    /// symbols and belong to one tenant. So no tenant's finished report waits for the symbols of another.
    async fn fetch_symbols<L: RecordProcessor>(
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
        let begun = self.worker.clock.monotonic_time();
        let fetched = self.worker.enricher.symbols.fetch_symbols(wanted, patience).await;
        let took = self.worker.clock.monotonic_time().saturating_sub(begun);
        let idled = took.saturating_sub(patience.least());
        processor.record_idle(i64::try_from(idled.as_micros()).unwrap_or(i64::MAX));
        fetched.map(|fetched| Some(Arc::new(fetched)))
    }

    /// Processes, in order, the records that have no step yet or that wanted the fetched symbols. Stops when
    /// the outputs reach the size limit of a transaction, and drops the steps of later records.
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
        // Enough jobs run ahead to keep every thread busy.
        let (most_ahead, mut begun, mut bytes) = (self.cpu.thread_count() * 4, 0, 0);
        while bytes < self.worker.most_outputs {
            while begun < last && ahead.len() < most_ahead {
                ahead.push_back(match known.next() {
                    Some(step @ RecordStep::Done(_)) => Ahead::Known(step),
                    _ => Ahead::Job(self.submit_record(&records[begun], fetched, processor)),
                });
                begun += 1;
            }
            let step = match ahead.pop_front() {
                Some(Ahead::Known(step)) => step,
                Some(Ahead::Job(job)) => finish_job(job).await,
                None => return,
            };
            bytes += step.output_bytes();
            steps.push(step);
        }
    }

    fn submit_record<L: RecordProcessor>(
        &self,
        record: &Record,
        fetched: Option<&Arc<FetchedSymbols>>,
        processor: &Arc<L>,
    ) -> CpuJob<RecordStep> {
        let tenant = sender::tenant_named(
            &self.worker.senders,
            &SourceRecord::from_record(record, &self.worker.topics),
        );
        let (record, fetched, processor) = (record.clone(), fetched.cloned(), Arc::clone(processor));
        let clock = self.worker.traces.tracer.is_on().then(|| Arc::clone(&self.worker.clock));
        self.cpu.submit_for(tenant, move || match clock {
            None => processor.process(&record, fetched.as_deref()),
            Some(clock) => {
                let began_micros = clock.now_micros();
                let mut step = processor.process(&record, fetched.as_deref());
                let ended_micros = clock.now_micros();
                step.record_step(ProcessingStep {
                    name: spans::SYMBOLICATE_STEP,
                    began_micros,
                    ended_micros,
                });
                step
            }
        })
    }
}

/// Waits for a job's result. A panic is passed on, so that the lane finds the record that caused it.
async fn finish_job(job: CpuJob<RecordStep>) -> RecordStep {
    match job.await {
        Ok(step) => step,
        Err(error) => std::panic::resume_unwind(Box::new(error.to_string())),
    }
}
