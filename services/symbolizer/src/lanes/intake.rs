//! Decides the outcome of a record of the live lane or, some time later, of the retry lane. A record has one
//! outcome for each of its reports. If it cannot be answered now, it has one outcome as a whole.

use crate::admission::lane_charges::LaneCharges;
use crate::admission::sender::{self, Admission};
use crate::admission::tenant_rates::TenantRates;
use crate::admission::tenants::AllowedUse;
use crate::lanes::batch::{RecordProcessor, RecordStep};
use crate::lanes::record_reports::RecordReports;
use crate::output::dead_letters::describe_refusal;
use crate::output::outcomes;
use crate::output::passing::{self, OtherCell};
use crate::retry_tiers::Tier;
use crate::source_record::{Reason, ReceiverRefusal, SourceRecord};
use crate::symbols::FetchedSymbols;
use crate::worker::Worker;
use bytes::Bytes;
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_proto::report::TerminalOutcome;
use unslide_runtime::job_bytes;
use unslide_stream::Record;
use unslide_stream::lane::{Done, Refusal};

/// Decides the outcome of reports on the live and retry lanes.
pub struct Intake {
    worker: Arc<Worker>,
    lane: &'static str,
    pub charges: LaneCharges,
}

impl Intake {
    /// Creates the intake of a lane.
    pub fn new(worker: Arc<Worker>, lane: &'static str, rates: Arc<TenantRates>) -> Intake {
        let charges = LaneCharges::new(worker.senders.clone(), rates);
        Intake { worker, lane, charges }
    }

    /// Returns the dead letter of a record that the lane itself refuses.
    pub fn refuse_record(&self, record: &Record, why: &Refusal) -> Done {
        let entry = SourceRecord::from_record(record, &self.worker.topics);
        let tenant = sender::tenant_named(&self.worker.senders, &entry);
        let (reason, detail) = describe_refusal(why);
        outcomes::dead_letter(&self.worker.outcomes, &entry, tenant.as_ref(), reason, &detail)
    }

    /// Splits a record of a known tenant into its reports, charges them, and symbolicates them.
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
            RecordStep::from(outcomes::dead_letter(
                &self.worker.outcomes,
                &entry,
                Some(tenant),
                reason,
                detail,
            ))
        };
        // After the tenant's rate: a refused record costs as much as any other.
        if let Some(refusal) = ReceiverRefusal::from_record(entry.record) {
            return dead(refusal.reason, refusal.detail);
        }
        let elements = match self.worker.enricher.readers.split_record(value, &self.worker.enricher.limits) {
            // An empty array is a record without a report, and still has an outcome.
            Ok(none) if none.is_empty() => {
                return dead("not_a_report", "the record is an array without a report in it");
            }
            Ok(elements) => elements,
            Err(error) => return dead(error.reason(), &error.to_string()),
        };
        if fetched.is_none() && elements.len() > 1 {
            self.charges.charge_reports(&entry, tenant, limits, elements.len() as u64 - 1);
        }
        let tries = entry.failed_tries(Reason::FetchFailed);
        let last = entry.internal && Tier::after_tries(tries + 1).is_none();
        let worker = &*self.worker;
        RecordReports { worker, last, entry, value, tenant, limits, fetched }.symbolicate_all(&elements)
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
        match sender::admit_record(&self.worker.senders, &entry, first, tenants_read) {
            Admission::Known { tenant, limits } => {
                if first && !entry.internal && !self.charges.try_admit(&entry, &tenant, limits) {
                    let detail = "no topic accepts a copy of the record";
                    let dead = || {
                        outcomes::dead_letter(
                            &self.worker.outcomes,
                            &entry,
                            Some(&tenant),
                            "too_large",
                            detail,
                        )
                    };
                    return outcomes::send_to_overflow(&self.worker.outcomes, &entry, &tenant)
                        .unwrap_or_else(dead)
                        .into();
                }
                self.read_record(entry, &tenant, limits, fetched)
            }
            Admission::Early { tenant } => {
                let detail = format!("there is no tenant {tenant} yet");
                let retried = outcomes::send_to_retry(
                    &self.worker.outcomes,
                    &entry,
                    &tenant,
                    None,
                    Reason::UnknownTenant,
                    &detail,
                );
                let dead = || {
                    outcomes::dead_letter(
                        &self.worker.outcomes,
                        &entry,
                        Some(&tenant),
                        "unknown_tenant",
                        &detail,
                    )
                };
                retried.unwrap_or_else(dead).into()
            }
            Admission::Refused { tenant, reason, detail } => {
                outcomes::dead_letter(&self.worker.outcomes, &entry, tenant.as_ref(), reason, &detail).into()
            }
            Admission::Deleted { tenant } => {
                outcomes::drop_record(&self.worker.outcomes, &entry, &tenant, self.lane).into()
            }
            Admission::Moved { tenant, prefix } => {
                let cell = OtherCell { tenant, prefix };
                let report = TerminalOutcome::default();
                passing::pass_on(&self.worker.outcomes, &entry, &cell, self.lane, report).into()
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
        self.charges.record_idle(micros);
    }
}
