//! Reports as they come in, on the live lane and, some time later, on the retry lane: one record, one
//! outcome for each report in it, or one for the record as a whole where it can't be answered now.

use crate::admission::sender::{self, Admission};
use crate::admission::tenant_rates::TenantRates;
use crate::admission::tenants::AllowedUse;
use crate::lanes::batch::{RecordProcessor, RecordStep};
use crate::output::dead_letters::{Position, Provenance, refusal};
use crate::output::outcomes::{self, SPREAD};
use crate::output::retry_tiers::Tier;
use crate::source_record::{Reason, SourceRecord};
use crate::symbols::{self, FetchedSymbols, Generations, UnfetchedSymbols, Wanted};
use crate::worker::Worker;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use unslide_model::{TenantId, cost};
use unslide_proto::headers;
use unslide_proto::report::Outcome;
use unslide_report::{Element, Report, split};
use unslide_runtime::fairness::FairShares;
use unslide_runtime::job_bytes;
use unslide_stream::lane::{Done, Refusal};
use unslide_stream::{OutRecord, Record, RecordRef};
use unslide_symbolicate::{Context, Enrichment, Plan, most_bytes};

/// What becomes of reports.
pub struct Intake {
    worker: Arc<Worker>,
    lane: &'static str,
    /// What each tenant may use. Records of internal topics were counted before, the reports of an array in
    /// overflow beside the first were not.
    shares: Arc<TenantRates>,
    /// What each has used of the lane, whatever it may.
    fair_shares: FairShares,
    /// Microseconds of the batch for which the lane only waited, with nothing else to do.
    idle: AtomicI64,
    /// Arrays that are not done, with reports that were counted.
    paid: Mutex<HashSet<RecordRef>>,
}

/// True for a record that waits for its tenant's rate in overflow.
pub fn is_paced(entry: &SourceRecord<'_>) -> bool {
    entry.tries(Reason::OverShare) > 0
}

/// Which part of its tenant's records in overflow a record is of; each has its part of the rate.
pub fn part_of(record: &Record) -> (&Arc<str>, u8, u8) {
    let half = record.key.as_ref().and_then(|key| key.last()).copied().unwrap_or_default();
    (&record.at.topic, half, SPREAD)
}

/// The cost units of a record, before it is known how many reports it holds.
pub fn units(record: &Record) -> u64 {
    cost::of_record(record.value.as_ref().map_or(0, Bytes::len))
}

/// A record that is being read.
struct Reading<'r> {
    entry: SourceRecord<'r>,
    value: &'r Bytes,
    tenant: &'r TenantId,
    limits: AllowedUse,
    fetched: Option<&'r FetchedSymbols>,
    /// What can't be fetched now won't be tried again.
    last: bool,
}

/// What became of one report of a record.
enum Part {
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

impl Intake {
    /// What becomes of the reports of a lane.
    pub fn new(worker: Arc<Worker>, lane: &'static str, shares: Arc<TenantRates>) -> Intake {
        let (fair_shares, paid) = (FairShares::default(), Mutex::default());
        Intake { worker, lane, shares, fair_shares, idle: AtomicI64::new(0), paid }
    }

    /// The end of a record that the lane itself ends.
    pub fn refused(&self, record: &Record, why: &Refusal) -> Done {
        let entry = SourceRecord::of(record, &self.worker.topics);
        let tenant = sender::tenant_named(&self.worker, &entry);
        let (reason, detail) = refusal(why);
        outcomes::dead_letter(&self.worker, &entry, tenant.as_ref(), reason, &detail)
    }

    /// Processes the reports of a record of a known tenant.
    fn read(
        &self,
        entry: SourceRecord<'_>,
        tenant: &TenantId,
        limits: AllowedUse,
        fetched: Option<&FetchedSymbols>,
    ) -> RecordStep {
        let nothing = Bytes::new();
        let value = entry.record.value.as_ref().unwrap_or(&nothing);
        job_bytes(value.len());
        let dead = |reason: &str, detail: &str| {
            RecordStep::from(outcomes::dead_letter(&self.worker, &entry, Some(tenant), reason, detail))
        };
        let elements = match split(value, &self.worker.limits) {
            // An empty array is a record without a report, and still has an outcome.
            Ok(none) if none.is_empty() => {
                return dead("not_a_report", "the record is an array without a report in it");
            }
            Ok(elements) => elements,
            Err(error) => return dead(error.reason(), &error.to_string()),
        };
        if fetched.is_none() && elements.len() > 1 {
            self.owe(&entry, tenant, limits, elements.len() as u64 - 1);
        }
        let tries = entry.tries(Reason::FetchFailed);
        let last = entry.internal && Tier::after(tries + 1).is_none();
        self.answer(&Reading { last, entry, value, tenant, limits, fetched }, &elements)
    }

    /// One output for each report of the record; or the symbols that any of them wants; or one outcome
    /// for the whole record where a report waits for symbols.
    fn answer(&self, reading: &Reading<'_>, elements: &[Element<'_>]) -> RecordStep {
        let (count, tenant) = (elements.len(), reading.tenant);
        // One report that fills the record is no array, whatever bytes are around it.
        let single = matches!(elements, [Element::Report(bytes)] if bytes.len() == reading.value.len());
        let trace = self.worker.continue_trace(reading.entry.record.headers.text(headers::TRACEPARENT));
        let traceparent = trace.header();
        let is_exported = self.worker.tracer.is_on() && trace.is_sampled();
        let mut done = Done {
            source: reading.entry.record.at.clone(),
            outputs: Vec::with_capacity(count),
            outcomes: Vec::with_capacity(count),
            history: None,
        };
        let (mut answered, mut wanted, mut held) = (Vec::new(), Vec::new(), None);
        // The reports of an array have together what one of their size would have.
        let mut room = most_bytes(reading.value.len());
        for (index, element) in elements.iter().enumerate() {
            let mut history = Provenance::of(&reading.entry, Some(tenant), traceparent.clone());
            history.position = (!single).then_some(Position { index, count });
            match self.element(element, reading, &history, room, is_exported) {
                Part::Answered { output, enriched, bytes, app } => {
                    if let Some(app) = app {
                        done.history.get_or_insert_default().app.get_or_insert(app);
                    }
                    room = room.saturating_sub(bytes);
                    done.outputs.push(output);
                    done.outcomes.push((tenant.to_string(), Outcome::Symbolicated));
                    answered.push(enriched);
                }
                Part::Dead(letter) => {
                    done.outputs.push(letter);
                    done.outcomes.push((tenant.to_string(), Outcome::DeadLetter));
                }
                Part::Wants(more) => wanted.extend(more),
                Part::Held(why) => held = held.or(Some(why)),
            }
        }
        if !wanted.is_empty() {
            return RecordStep::Wants(wanted);
        }
        if let Some(held) = held {
            return self.hold(reading, &held).into();
        }
        answered.iter().for_each(|enriched| self.worker.metrics.symbolicated(enriched));
        done.into()
    }

    /// One report's output of at most `room` bytes, or what it wants first. `is_exported`: the record's span is.
    fn element(
        &self,
        element: &Element<'_>,
        reading: &Reading<'_>,
        history: &Provenance<'_>,
        room: usize,
        is_exported: bool,
    ) -> Part {
        let worker = &self.worker;
        let dead = |bytes: &[u8], reason: &str, detail: &str| {
            let value = Some(reading.value.slice_ref(bytes));
            Part::Dead(history.dead_letter(&worker.letters, value, reason, detail))
        };
        let bytes = match element {
            Element::Report(bytes) => *bytes,
            Element::Text(text) => {
                let detail =
                    "a string is a report that the device rendered as text; it has no frames to look up";
                return dead(text.raw(), "not_a_report", detail);
            }
            Element::Other { bytes, found } => {
                return dead(bytes, "not_a_report", &format!("a report is an object, this is {found}"));
            }
        };
        let most = reading.limits.report_bytes;
        if most > 0 && bytes.len() as u64 > most {
            let detail = format!("the report has {} bytes, the tenant's may have {most}", bytes.len());
            return dead(bytes, "too_large", &detail);
        }
        let report = match Report::accept(bytes, &worker.limits) {
            Ok(report) => report,
            Err(error) => return dead(bytes, error.reason(), &error.to_string()),
        };
        let plan = Plan::new(&report);
        let wanted = Wanted::of(reading.tenant, &plan.needs(), |_| Generations::default());
        let answers = match worker.symbols.lookup(wanted, reading.fetched, reading.last) {
            symbols::Lookup::Answers(answers) => answers,
            symbols::Lookup::Wants(wanted) => return Part::Wants(wanted),
            symbols::Lookup::Held(held) => return Part::Held(held),
        };
        let context = Context {
            tenant: Some(reading.tenant),
            revision: Some(1),
            processed_at: Some(worker.clock.now()),
            most_bytes: Some(room),
            ..Context::default()
        };
        let id = reading.tenant.scope(report.id);
        let output = match worker.output(&plan, &id, &answers, history, context) {
            Ok(output) => output,
            Err(error) => return dead(bytes, "too_large", &error.to_string()),
        };
        tracing::debug!(report.id = %id.id, trace.parent = history.traceparent, "a report was symbolicated");
        let bytes = output.bytes().len();
        let app = if is_exported { report.summary().app } else { None };
        Part::Answered { output: output.record, enriched: Box::new(output.enriched), bytes, app }
    }

    /// The outcome of a record that waits for symbols. On its way from the input being late is no try
    /// yet; after that it is a failure like another. Nothing is paced in the tiers, so nobody waits
    /// there for another tenant's rate.
    fn hold(&self, reading: &Reading<'_>, held: &UnfetchedSymbols) -> Done {
        let (entry, tenant) = (&reading.entry, reading.tenant);
        let late = "a symcache did not arrive in time";
        let cold = held.failure.is_none() && !entry.internal;
        let reason = if cold { Reason::Cold } else { Reason::FetchFailed };
        let why = held.failure.as_deref().unwrap_or(late);
        let retried = outcomes::retry(&self.worker, entry, tenant, Some(&held.id), reason, why);
        // Copies have room for every record that the input takes.
        retried.unwrap_or_else(|| outcomes::dead_letter(&self.worker, entry, Some(tenant), "too_large", why))
    }

    fn admits(&self, entry: &SourceRecord<'_>, tenant: &TenantId, limits: AllowedUse) -> bool {
        let now = self.worker.clock.monotonic_micros();
        let (at, units) = (&entry.record.at, units(entry.record));
        if self.paid.lock().contains(at) {
            return true;
        }
        let is_within = |rate| self.shares.take(tenant, &at.topic, rate, now, units);
        self.worker.rate(limits).is_none_or(is_within) && self.fair_shares.try_take(tenant, now, units)
    }

    /// The lane has worked on a batch since `began`, in microseconds of the monotonic clock.
    pub fn worked(&self, began: i64) {
        let idle = self.idle.swap(0, Ordering::Relaxed);
        self.fair_shares.record_busy(began.saturating_add(idle), self.worker.clock.monotonic_micros());
    }

    /// The reports of an array beside the first are owed where the record itself was counted: on the
    /// input, and in overflow. Once, however often the record is looked at before it is done.
    fn owe(&self, entry: &SourceRecord<'_>, tenant: &TenantId, limits: AllowedUse, more: u64) {
        let at = &entry.record.at;
        let paced = is_paced(entry);
        let Some(rate) = self.worker.rate(limits).filter(|_| paced || !entry.internal) else { return };
        if !self.paid.lock().insert(at.clone()) {
            return;
        }
        let now = self.worker.clock.monotonic_micros();
        if paced {
            self.shares.owe_part(tenant, part_of(entry.record), rate, now, more);
        } else {
            self.shares.owe(tenant, &at.topic, rate, now, more);
        }
    }

    /// These records are done.
    pub fn committed(&self, records: &[&Record]) {
        let mut paid = self.paid.lock();
        if !paid.is_empty() {
            records.iter().for_each(|record| {
                paid.remove(&record.at);
            });
        }
    }

    /// Other partitions are this lane's now: what was begun of the others is not its own any more.
    pub fn assigned(&self) {
        self.paid.lock().clear();
    }

    /// What becomes of a record. `tenants_read` as in [`sender::admit`].
    pub fn process_record(
        &self,
        record: &Record,
        fetched: Option<&FetchedSymbols>,
        tenants_read: bool,
    ) -> RecordStep {
        let entry = SourceRecord::of(record, &self.worker.topics);
        let first = fetched.is_none();
        match sender::admit(&self.worker, &entry, first, tenants_read) {
            Admission::Known { tenant, limits } => {
                if first && !entry.internal && !self.admits(&entry, &tenant, limits) {
                    let detail = "no topic takes a copy of the record";
                    let dead =
                        || outcomes::dead_letter(&self.worker, &entry, Some(&tenant), "too_large", detail);
                    return outcomes::overflow(&self.worker, &entry, &tenant).unwrap_or_else(dead).into();
                }
                self.read(entry, &tenant, limits, fetched)
            }
            Admission::Early { tenant } => {
                let detail = format!("there is no tenant {tenant} yet");
                let retried =
                    outcomes::retry(&self.worker, &entry, &tenant, None, Reason::UnknownTenant, &detail);
                let dead =
                    || outcomes::dead_letter(&self.worker, &entry, Some(&tenant), "unknown_tenant", &detail);
                retried.unwrap_or_else(dead).into()
            }
            Admission::Refused { tenant, reason, detail } => {
                outcomes::dead_letter(&self.worker, &entry, tenant.as_ref(), reason, &detail).into()
            }
            Admission::Deleted { tenant } => {
                outcomes::dropped(&self.worker, &entry, &tenant, self.lane).into()
            }
        }
    }
}

impl RecordProcessor for Intake {
    fn process(&self, record: &Record, fetched: Option<&FetchedSymbols>) -> RecordStep {
        // A record of an input topic was in no retry tier yet, so that nothing depends on it.
        self.process_record(record, fetched, false)
    }

    fn idled(&self, micros: i64) {
        self.idle.fetch_add(micros, Ordering::Relaxed);
    }
}
