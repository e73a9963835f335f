//! Charges the records of a lane to their tenants: to the tenant's rate limit, and to its share of the lane.

use crate::admission::sender::SenderChecks;
use crate::admission::tenant_rates::TenantRates;
use crate::admission::tenants::AllowedUse;
use crate::output::outcomes::OVERFLOW_KEYS;
use crate::source_record::{Reason, SourceRecord};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use unslide_model::{TenantId, cost};
use unslide_runtime::fairness::FairShares;
use unslide_stream::{Record, RecordRef};

/// Charges of one lane. Records of internal topics were charged before. In overflow, the reports of an array
/// after the first were not.
pub struct LaneCharges {
    checks: Arc<SenderChecks>,
    rates: Arc<TenantRates>,
    /// Each tenant's use of the lane, independent of its rate limit.
    fair_shares: FairShares,
    /// Microseconds of the batch in which the lane waited for symcaches and no other records waited.
    idle_micros: AtomicI64,
    /// Arrays in progress, if their reports after the first are already charged.
    charged_arrays: Mutex<HashSet<RecordRef>>,
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

impl LaneCharges {
    /// Creates the charges of a lane that charges to `rates`.
    pub fn new(checks: Arc<SenderChecks>, rates: Arc<TenantRates>) -> LaneCharges {
        let (fair_shares, charged_arrays) = (FairShares::default(), Mutex::default());
        LaneCharges { checks, rates, fair_shares, idle_micros: AtomicI64::new(0), charged_arrays }
    }

    /// Charges a record to its tenant. Returns false if the tenant is over its rate, or over its share of the lane.
    /// An array that is charged already is admitted.
    pub fn try_admit(&self, entry: &SourceRecord<'_>, tenant: &TenantId, limits: AllowedUse) -> bool {
        let now = self.checks.clock.monotonic_micros();
        let (at, units) = (&entry.record.at, cost_units(entry.record));
        if self.charged_arrays.lock().contains(at) {
            return true;
        }
        self.rates.record_use(tenant, at, now);
        let is_within = |rate| self.rates.take_units(tenant, &at.topic, rate, now, units);
        self.checks.tenant_rate(limits).is_none_or(is_within) && self.fair_shares.try_take(tenant, now, units)
    }

    /// Records that the lane was busy with a batch since `began`, in microseconds of the monotonic clock.
    pub fn record_busy(&self, began: i64) {
        let idle = self.idle_micros.swap(0, Ordering::Relaxed);
        self.fair_shares.record_busy(began.saturating_add(idle), self.checks.clock.monotonic_micros());
    }

    /// Records that the lane waited for symcaches for `micros`, and no other records waited.
    pub fn record_idle(&self, micros: i64) {
        self.idle_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Charges the reports of an array after the first if the record itself was charged: on the input, and in
    /// overflow. Charges once, however often the record is processed before it is done.
    pub fn charge_reports(&self, entry: &SourceRecord<'_>, tenant: &TenantId, limits: AllowedUse, more: u64) {
        let at = &entry.record.at;
        let paced = is_paced(entry);
        let Some(rate) = self.checks.tenant_rate(limits).filter(|_| paced || !entry.internal) else { return };
        if !self.charged_arrays.lock().insert(at.clone()) {
            return;
        }
        let now = self.checks.clock.monotonic_micros();
        if paced {
            self.rates.owe_part(tenant, part_of(entry.record), rate, now, more);
        } else {
            self.rates.charge_units(tenant, &at.topic, rate, now, more);
        }
    }

    /// Forgets the charged arrays among these records, which are done.
    pub fn forget_committed(&self, records: &[&Record]) {
        let mut charged = self.charged_arrays.lock();
        if !charged.is_empty() {
            records.iter().for_each(|record| {
                charged.remove(&record.at);
            });
        }
    }

    /// Forgets all charged arrays, because other partitions are assigned to the lane now.
    pub fn forget_charged(&self) {
        self.charged_arrays.lock().clear();
    }
}
