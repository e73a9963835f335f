//! Processes incoming reports on the live lane and, some time later, on the retry lane. A record has one
//! outcome for each of its reports. If it cannot be answered now, it has one outcome as a whole.

use crate::admission::sender::{self, Admission};
use crate::admission::tenant_rates::TenantRates;
use crate::admission::tenants::AllowedUse;
use crate::lanes::batch::{RecordProcessor, RecordStep};
use crate::output::dead_letters::{Position, Provenance, describe_refusal};
use crate::output::outcomes::{self, OVERFLOW_KEYS};
use crate::output::retry_tiers::Tier;
use crate::source_record::{Reason, ReceiverRefusal, SourceRecord};
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
use unslide_report::{Element, Report, split_record};
use unslide_runtime::fairness::FairShares;
use unslide_runtime::job_bytes;
use unslide_stream::lane::{Done, Refusal};
use unslide_stream::{OutRecord, Record, RecordRef};
use unslide_symbolicate::{Context, Enrichment, Plan, most_bytes};

/// Decides the outcome of reports on the live and retry lanes.
pub struct Intake {
    worker: Arc<Worker>,
    lane: &'static str,
    /// Rate limits of the tenants. Records of internal topics were charged before. In overflow, the reports
    /// of an array after the first were not.
    shares: Arc<TenantRates>,
    /// Each tenant's use of the lane, independent of its rate limit.
    fair_shares: FairShares,
    /// Microseconds of the batch in which the lane waited for symcaches and no other records waited.
    idle: AtomicI64,
    /// Arrays in progress, if their reports after the first are already charged.
    paid: Mutex<HashSet<RecordRef>>,
}

/// Returns true for a record that waits in overflow for its tenant's rate.
pub fn is_paced(entry: &SourceRecord<'_>) -> bool {
    entry.failed_tries(Reason::OverShare) > 0
}

/// Returns the part of its tenant's records in overflow that a record belongs to. Each part has its share of
/// the rate.
pub fn part_of(record: &Record) -> (&Arc<str>, u8, u8) {
    let half = record.key.as_ref().and_then(|key| key.last()).copied().unwrap_or_default();
    (&record.at.topic, half, OVERFLOW_KEYS)
}

/// Returns the cost units of a record, before the number of its reports is known.
pub fn cost_units(record: &Record) -> u64 {
    cost::units_for_record(record.value.as_ref().map_or(0, Bytes::len))
}

/// A record that is being processed.
struct Reading<'r> {
    entry: SourceRecord<'r>,
    value: &'r Bytes,
    tenant: &'r TenantId,
    limits: AllowedUse,
    fetched: Option<&'r FetchedSymbols>,
    /// True if symbols that cannot be fetched now won't be tried again.
    last: bool,
}

/// Result for one report of a record.
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
    /// Creates the intake of a lane.
    pub fn new(worker: Arc<Worker>, lane: &'static str, shares: Arc<TenantRates>) -> Intake {
        let (fair_shares, paid) = (FairShares::default(), Mutex::default());
        Intake { worker, lane, shares, fair_shares, idle: AtomicI64::new(0), paid }
    }

    /// Returns the dead letter of a record that the lane itself refuses.
    pub fn refuse_record(&self, record: &Record, why: &Refusal) -> Done {
        let entry = SourceRecord::from_record(record, &self.worker.topics);
        let tenant = sender::tenant_named(&self.worker, &entry);
        let (reason, detail) = describe_refusal(why);
        outcomes::dead_letter(&self.worker, &entry, tenant.as_ref(), reason, &detail)
    }

    /// Processes the reports of a record of a known tenant.
    fn read_record(
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
        // After the tenant's rate: a refused record costs as much as any other.
        if let Some(refusal) = ReceiverRefusal::from_record(entry.record) {
            return dead(refusal.reason, refusal.detail);
        }
        let elements = match split_record(value, &self.worker.limits) {
            // An empty array is a record without a report, and still has an outcome.
            Ok(none) if none.is_empty() => {
                return dead("not_a_report", "the record is an array without a report in it");
            }
            Ok(elements) => elements,
            Err(error) => return dead(error.reason(), &error.to_string()),
        };
        if fetched.is_none() && elements.len() > 1 {
            self.charge_reports(&entry, tenant, limits, elements.len() as u64 - 1);
        }
        let tries = entry.failed_tries(Reason::FetchFailed);
        let last = entry.internal && Tier::after_tries(tries + 1).is_none();
        self.answer_record(&Reading { last, entry, value, tenant, limits, fetched }, &elements)
    }

    /// Returns one output for each report of the record. If a report needs symbols first, returns those; if a
    /// report has to wait for symbols, returns one outcome for the whole record.
    fn answer_record(&self, reading: &Reading<'_>, elements: &[Element<'_>]) -> RecordStep {
        let (count, tenant) = (elements.len(), reading.tenant);
        // A report that fills the record is not an element of an array.
        let single = matches!(elements, [Element::Report(bytes)] if bytes.len() == reading.value.len());
        let trace = self.worker.continue_trace(reading.entry.record.headers.get_text(headers::TRACEPARENT));
        let traceparent = trace.format_header();
        let is_exported = self.worker.tracer.is_on() && trace.is_sampled();
        let mut done = Done {
            source: reading.entry.record.at.clone(),
            outputs: Vec::with_capacity(count),
            outcomes: Vec::with_capacity(count),
            history: None,
        };
        let (mut answered, mut wanted, mut held) = (Vec::new(), Vec::new(), None);
        // The reports of an array share the output limit of one report of their total size.
        let mut room = most_bytes(reading.value.len());
        for (index, element) in elements.iter().enumerate() {
            let mut history = Provenance::from_record(&reading.entry, Some(tenant), traceparent.clone());
            history.position = (!single).then_some(Position { index, count });
            match self.answer_element(element, reading, &history, room, is_exported) {
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
            return self.hold_record(reading, &held).into();
        }
        answered.iter().for_each(|enriched| self.worker.metrics.count_frames(enriched));
        done.into()
    }

    /// Returns one report's output of at most `room` bytes, or the symbols that it needs first. `is_exported`
    /// is true if the record's span is exported.
    fn answer_element(
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
        let source = match worker.readers.open(bytes, &worker.limits) {
            Ok(source) => source,
            Err(error) => return dead(bytes, error.reason(), &error.to_string()),
        };
        let report = match Report::read_event(source.json(), &worker.limits) {
            Ok(report) => report,
            Err(error) => return dead(bytes, error.reason(), &error.to_string()),
        };
        let plan = Plan::new(&report);
        let wanted = Wanted::for_report(reading.tenant, &plan.list_needs(), |_| Generations::default());
        let answers = match worker.symbols.look_up_symbols(wanted, reading.fetched, reading.last) {
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
        let output = match worker.build_output(&source, &plan, &id, &answers, history, context) {
            Ok(output) => output,
            Err(error) => return dead(bytes, error.reason(), &error.to_string()),
        };
        tracing::debug!(report.id = %id.id, trace.parent = history.traceparent, "a report was symbolicated");
        let bytes = output.bytes().len();
        let app = if is_exported { report.summary().app } else { None };
        Part::Answered { output: output.record, enriched: Box::new(output.enriched), bytes, app }
    }

    /// Returns the outcome of a record that waits for symbols. For a record from an input, a late symcache
    /// does not count as a failed try; after that it does. Records in the retry tiers are not paced, so they
    /// do not wait for another tenant's rate.
    fn hold_record(&self, reading: &Reading<'_>, held: &UnfetchedSymbols) -> Done {
        let (entry, tenant) = (&reading.entry, reading.tenant);
        let late = "a symcache did not arrive in time";
        let cold = held.failure.is_none() && !entry.internal;
        let reason = if cold { Reason::Cold } else { Reason::FetchFailed };
        let why = held.failure.as_deref().unwrap_or(late);
        let retried = outcomes::send_to_retry(&self.worker, entry, tenant, Some(&held.id), reason, why);
        // The topics of copies accept every record that the input accepts.
        retried.unwrap_or_else(|| outcomes::dead_letter(&self.worker, entry, Some(tenant), "too_large", why))
    }

    fn try_admit(&self, entry: &SourceRecord<'_>, tenant: &TenantId, limits: AllowedUse) -> bool {
        let now = self.worker.clock.monotonic_micros();
        let (at, units) = (&entry.record.at, cost_units(entry.record));
        if self.paid.lock().contains(at) {
            return true;
        }
        let is_within = |rate| self.shares.take_units(tenant, &at.topic, rate, now, units);
        self.worker.tenant_rate(limits).is_none_or(is_within) && self.fair_shares.try_take(tenant, now, units)
    }

    /// Records that the lane was busy with a batch since `began`, in microseconds of the monotonic clock.
    pub fn record_busy(&self, began: i64) {
        let idle = self.idle.swap(0, Ordering::Relaxed);
        self.fair_shares.record_busy(began.saturating_add(idle), self.worker.clock.monotonic_micros());
    }

    /// Charges the reports of an array after the first if the record itself was charged: on the input, and in
    /// overflow. Charges once, however often the record is processed before it is done.
    fn charge_reports(&self, entry: &SourceRecord<'_>, tenant: &TenantId, limits: AllowedUse, more: u64) {
        let at = &entry.record.at;
        let paced = is_paced(entry);
        let Some(rate) = self.worker.tenant_rate(limits).filter(|_| paced || !entry.internal) else { return };
        if !self.paid.lock().insert(at.clone()) {
            return;
        }
        let now = self.worker.clock.monotonic_micros();
        if paced {
            self.shares.owe_part(tenant, part_of(entry.record), rate, now, more);
        } else {
            self.shares.charge_units(tenant, &at.topic, rate, now, more);
        }
    }

    /// Forgets the charged arrays among these records, which are done.
    pub fn forget_committed(&self, records: &[&Record]) {
        let mut paid = self.paid.lock();
        if !paid.is_empty() {
            records.iter().for_each(|record| {
                paid.remove(&record.at);
            });
        }
    }

    /// Forgets all charged arrays, because other partitions are assigned to the lane now.
    pub fn forget_charged(&self) {
        self.paid.lock().clear();
    }

    /// Returns the outcome of a record. For `tenants_read` see [`sender::admit_record`].
    pub fn process_record(
        &self,
        record: &Record,
        fetched: Option<&FetchedSymbols>,
        tenants_read: bool,
    ) -> RecordStep {
        let entry = SourceRecord::from_record(record, &self.worker.topics);
        let first = fetched.is_none();
        match sender::admit_record(&self.worker, &entry, first, tenants_read) {
            Admission::Known { tenant, limits } => {
                if first && !entry.internal && !self.try_admit(&entry, &tenant, limits) {
                    let detail = "no topic accepts a copy of the record";
                    let dead =
                        || outcomes::dead_letter(&self.worker, &entry, Some(&tenant), "too_large", detail);
                    return outcomes::send_to_overflow(&self.worker, &entry, &tenant)
                        .unwrap_or_else(dead)
                        .into();
                }
                self.read_record(entry, &tenant, limits, fetched)
            }
            Admission::Early { tenant } => {
                let detail = format!("there is no tenant {tenant} yet");
                let retried = outcomes::send_to_retry(
                    &self.worker,
                    &entry,
                    &tenant,
                    None,
                    Reason::UnknownTenant,
                    &detail,
                );
                let dead =
                    || outcomes::dead_letter(&self.worker, &entry, Some(&tenant), "unknown_tenant", &detail);
                retried.unwrap_or_else(dead).into()
            }
            Admission::Refused { tenant, reason, detail } => {
                outcomes::dead_letter(&self.worker, &entry, tenant.as_ref(), reason, &detail).into()
            }
            Admission::Deleted { tenant } => {
                outcomes::drop_record(&self.worker, &entry, &tenant, self.lane).into()
            }
        }
    }
}

impl RecordProcessor for Intake {
    fn process(&self, record: &Record, fetched: Option<&FetchedSymbols>) -> RecordStep {
        // A record of an input topic was in no retry tier yet, so `tenants_read` makes no difference.
        self.process_record(record, fetched, false)
    }

    fn record_idle(&self, micros: i64) {
        self.idle.fetch_add(micros, Ordering::Relaxed);
    }
}
