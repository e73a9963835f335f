//! What the lanes of one worker have in common.

use crate::account::Ledger;
use crate::letters::History;
use crate::metrics::Metrics;
use crate::symbols::{Answers, Fetched, Symbols, Wanted};
use crate::tenants::Tenants;
use std::collections::HashSet;
use std::sync::Arc;
use unslide_model::{Clock, ReportId, Scoped};
use unslide_proto::headers;
use unslide_proto::report::Outcome;
use unslide_proto::topics::TopicNames;
use unslide_proto::trace::{Ids, TraceContext};
use unslide_report::ReadLimits;
use unslide_runtime::{CpuPool, Job};
use unslide_stream::lane::{Done, Pause};
use unslide_stream::{OutRecord, Record};
use unslide_symbolicate::{Context, Detail, Enriched, ImageSymbols, Plan};

/// A worker: what its lanes use.
pub struct Worker {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where the core runs.
    pub cpu: CpuPool,
    /// Whose reports are taken.
    pub tenants: Arc<Tenants>,
    /// The symcaches.
    pub symbols: Symbols,
    /// The installation's topics.
    pub topics: TopicNames,
    /// Bounds of a report.
    pub limits: ReadLimits,
    /// The largest output, in bytes of key, headers and value.
    pub output_bytes: usize,
    /// Ids of spans.
    pub ids: Ids,
    /// The figures.
    pub metrics: Metrics,
}

/// What one look at a record came to.
pub enum Step {
    /// It is done.
    Done(Done),
    /// These symbols are wanted first.
    Wants(Vec<Wanted>),
}

/// Why a report has no output.
pub struct TooLarge {
    /// The smallest that it could be made, in bytes.
    pub bytes: usize,
}

impl Worker {
    /// The trace that a record's outputs continue.
    pub fn traceparent(&self, record: &Record) -> String {
        TraceContext::continued(record.headers.text(headers::TRACEPARENT), &self.ids).header()
    }

    /// Looks at every record of a batch on the CPU pool, fetches what any of them wants, and looks
    /// again at those. `look` is called with what was fetched so far; once with everything it must
    /// come to an end.
    ///
    /// # Errors
    /// [`Pause`] where symbols can't be had for now.
    pub async fn run<F>(&self, records: Vec<Record>, look: F) -> Result<Vec<Done>, Pause>
    where
        F: Fn(&Record, &Fetched) -> Step + Clone + Send + 'static,
    {
        let nothing = Arc::new(Fetched::new());
        let mut steps = Vec::with_capacity(records.len());
        let jobs: Vec<Job<Step>> = records.iter().map(|r| self.submit(r, &nothing, &look)).collect();
        for job in jobs {
            steps.push(finish(job).await?);
        }
        let wanted: HashSet<Wanted> = steps
            .iter()
            .filter_map(|step| if let Step::Wants(wanted) = step { Some(wanted) } else { None })
            .flatten()
            .cloned()
            .collect();
        let fetched =
            Arc::new(if wanted.is_empty() { Fetched::new() } else { self.symbols.fetch(wanted).await? });
        let mut jobs = Vec::with_capacity(records.len());
        for (record, step) in records.iter().zip(steps) {
            jobs.push(match step {
                Step::Done(done) => Ok(done),
                Step::Wants(_) => Err(self.submit(record, &fetched, &look)),
            });
        }
        let mut all = Vec::with_capacity(jobs.len());
        for job in jobs {
            all.push(match job {
                Ok(done) => done,
                Err(job) => match finish(job).await? {
                    Step::Done(done) => done,
                    Step::Wants(wanted) => return Err(evicted(&wanted)),
                },
            });
        }
        Ok(all)
    }

    fn submit<F>(&self, record: &Record, fetched: &Arc<Fetched>, look: &F) -> Job<Step>
    where
        F: Fn(&Record, &Fetched) -> Step + Clone + Send + 'static,
    {
        let (record, fetched, look) = (record.clone(), Arc::clone(fetched), look.clone());
        self.cpu.submit(move || look(&record, &fetched))
    }

    /// The planned report, enriched, as a record that the broker takes: with everything, else without the
    /// calls of threads that did not crash, else with functions' names alone.
    ///
    /// # Errors
    /// [`TooLarge`] where none of these is small enough.
    pub fn output(
        &self,
        plan: &Plan<'_, '_>,
        id: &Scoped<ReportId>,
        answers: &Answers,
        history: &History<'_>,
        context: Context<'_>,
    ) -> Result<(Enriched, OutRecord), TooLarge> {
        let symbols = |id: &unslide_model::DebugId| -> Option<&ImageSymbols> { answers.get(id) };
        let revision = context.revision.unwrap_or(1);
        let mut smallest = 0;
        for detail in [Detail::Full, Detail::CrashedThreadOnly, Detail::FunctionsOnly] {
            let mut enriched = plan.enrich(&symbols, &Context { detail, ..context });
            let bytes = std::mem::take(&mut enriched.bytes);
            let record = history.report(&self.topics.output, id, revision, context.supersedes, bytes);
            if record.size() <= self.output_bytes {
                return Ok((enriched, record));
            }
            smallest = record.size();
        }
        Err(TooLarge { bytes: smallest })
    }

    /// The end of a record that can't be processed as a whole: a dead letter with its bytes as they came.
    pub fn dead_letter(
        &self,
        record: &Record,
        traceparent: String,
        tenant: &str,
        reason: &str,
        detail: &str,
    ) -> Done {
        let history = History { source: record, position: None, origin: None, traceparent };
        let letter = history.dead_letter(&self.topics.dead_letter, record.value.clone(), reason, detail);
        Done {
            source: record.at.clone(),
            outputs: vec![letter],
            outcomes: vec![(tenant.to_owned(), Outcome::DeadLetter)],
        }
    }

    /// The ledger of a lane.
    pub fn ledger(&self, lane: &'static str, worker: &str) -> Ledger {
        Ledger { topic: self.topics.ledger.clone(), lane, worker: worker.to_owned() }
    }
}

/// A job's result. A panic is passed on: the lane finds the record that is at fault.
async fn finish(job: Job<Step>) -> Result<Step, Pause> {
    match job.await {
        Ok(step) => Ok(step),
        Err(error) => std::panic::resume_unwind(Box::new(error.to_string())),
    }
}

fn evicted(wanted: &[Wanted]) -> Pause {
    Pause {
        reason: format!("{} symcaches were fetched and are gone again: the cache is too small", wanted.len()),
        wait: std::time::Duration::from_secs(1),
    }
}
