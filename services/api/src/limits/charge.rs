//! Cost units that a request takes from its tenant: one for each report, and one for each 64 KiB that is
//! received or unpacked. They are taken during the work, so that the work stops when the rate is used up.

use super::capacity::Capacity;
use crate::problem::{Kind, Problem};
use prometheus::IntCounterVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use unslide_model::{Clock, TenantId, cost};
use unslide_runtime::fairness::{Rate, TokenBuckets};

/// Seconds' worth of units that may be used at once after a pause.
const BURST_SECONDS: f64 = 2.0;
/// The longest retry delay that a refusal names, in microseconds.
const LONGEST_PAUSE: i64 = 3_600_000_000;

/// A request that is being charged.
pub struct Charge {
    buckets: Arc<TokenBuckets<TenantId>>,
    clock: Arc<dyn Clock>,
    refused: IntCounterVec,
    tenant: TenantId,
    /// The limit's name and value, for error messages.
    limit: (&'static str, u32),
    /// This process's share of the limit.
    rate: Rate,
    /// The bucket was full when the request began. Such a request may finish, because a large one never could
    /// otherwise.
    overdraw: bool,
    /// Bytes that were charged when they were received. The same number of unpacked bytes costs nothing more.
    prepaid: u64,
    /// Bytes that do not fill a unit yet.
    rest: u64,
    /// For a request that is accepted over the rate too: true once it was over.
    overflow: Option<AtomicBool>,
}

impl Charge {
    /// Begins to charge for reports that a tenant sends, and takes the unit of the first report. `own` is the
    /// tenant's own limit, or 0 if it has none.
    ///
    /// # Errors
    /// [`Kind::RateLimited`].
    pub fn for_reports(capacity: &Capacity, tenant: &TenantId, own: u32) -> Result<Charge, Problem> {
        let limits = [own, capacity.tenants.units_per_second];
        let limit = limits.into_iter().find(|limit| *limit > 0).unwrap_or(u32::MAX);
        Charge::begin_charge(capacity, capacity.report_units.clone(), tenant, ("units_per_second", limit))
    }

    /// Begins to charge for reports of a tenant that are accepted over its rate, too, because they then wait in
    /// overflow. Nothing of this charge is refused: [`Charge::is_over_rate`] says whether the rate was exceeded.
    #[must_use]
    pub fn for_overflowing_reports(capacity: &Capacity, tenant: &TenantId, own: u32) -> Charge {
        let limits = [own, capacity.tenants.units_per_second];
        let limit = limits.into_iter().find(|limit| *limit > 0).unwrap_or(u32::MAX);
        let mut charge = Charge::prepare_charge(
            capacity,
            capacity.report_units.clone(),
            tenant,
            ("units_per_second", limit),
        );
        charge.overflow = Some(AtomicBool::new(false));
        charge.overdraw = charge.take_units(1, false).unwrap_or_default();
        charge
    }

    /// Returns true if the tenant's rate was exceeded. Only a charge of reports that may wait in overflow goes on then.
    #[must_use]
    pub fn is_over_rate(&self) -> bool {
        self.overflow.as_ref().is_some_and(|is_over| is_over.load(Ordering::Relaxed))
    }

    /// Begins to charge for a report that a tenant symbolicates or explains, and takes its first unit.
    ///
    /// # Errors
    /// [`Kind::RateLimited`].
    pub fn for_symbolication(capacity: &Capacity, tenant: &TenantId) -> Result<Charge, Problem> {
        let limit = capacity.tenants.symbolication_units_per_second;
        Charge::begin_charge(
            capacity,
            capacity.symbolication_units.clone(),
            tenant,
            ("symbolication_units_per_second", limit),
        )
    }

    fn begin_charge(
        capacity: &Capacity,
        buckets: Arc<TokenBuckets<TenantId>>,
        tenant: &TenantId,
        limit: (&'static str, u32),
    ) -> Result<Charge, Problem> {
        let mut charge = Charge::prepare_charge(capacity, buckets, tenant, limit);
        charge.overdraw = charge.take_units(1, false)?;
        Ok(charge)
    }

    fn prepare_charge(
        capacity: &Capacity,
        buckets: Arc<TokenBuckets<TenantId>>,
        tenant: &TenantId,
        limit: (&'static str, u32),
    ) -> Charge {
        Charge {
            buckets,
            clock: capacity.clock.clone(),
            refused: capacity.refused.clone(),
            tenant: tenant.clone(),
            limit,
            rate: Rate::with_burst(f64::from(limit.1), BURST_SECONDS),
            overdraw: false,
            prepaid: 0,
            rest: 0,
            overflow: None,
        }
    }

    /// Charges for received bytes, before unpacking.
    ///
    /// # Errors
    /// [`Kind::RateLimited`].
    pub fn charge_received(&mut self, bytes: u64) -> Result<(), Problem> {
        self.prepaid = self.prepaid.saturating_add(bytes);
        self.charge_bytes(bytes)
    }

    /// Charges for unpacked bytes that exceed the bytes already charged as received.
    ///
    /// # Errors
    /// [`Kind::RateLimited`].
    pub fn charge_unpacked(&mut self, bytes: u64) -> Result<(), Problem> {
        let paid = bytes.min(self.prepaid);
        self.prepaid -= paid;
        self.charge_bytes(bytes - paid)
    }

    /// Charges for all reports of the request.
    ///
    /// # Errors
    /// [`Kind::RateLimited`].
    pub fn charge_reports(&self, reports: usize) -> Result<(), Problem> {
        // The first report was charged at the beginning.
        self.charge_units((reports as u64).saturating_sub(1))
    }

    fn charge_bytes(&mut self, bytes: u64) -> Result<(), Problem> {
        let unpaid = self.rest.saturating_add(bytes);
        self.rest = unpaid % cost::UNIT_BYTES;
        self.charge_units(cost::units_for_bytes(unpaid))
    }

    fn charge_units(&self, units: u64) -> Result<(), Problem> {
        if units == 0 {
            return Ok(());
        }
        self.take_units(units, self.overdraw).map(drop)
    }

    /// Takes units; with `overdraw`, the bucket may go into debt. Returns true if the bucket was full.
    fn take_units(&self, units: u64, overdraw: bool) -> Result<bool, Problem> {
        #[expect(clippy::cast_precision_loss, reason = "a body has far fewer units than 2^52")]
        let units = units as f64;
        let (rate, now) = (self.rate, self.clock.monotonic_micros());
        let taken = self.buckets.with_bucket(self.tenant.clone(), rate, now, |bucket| {
            let full = bucket.is_full(rate, now);
            if overdraw {
                bucket.charge_tokens(rate, now, units);
            } else if !bucket.try_take(rate, now, units) {
                // A full bucket admits any request.
                return Err(bucket.wait_micros(rate, now, rate.burst));
            }
            Ok(full)
        });
        match (taken, &self.overflow) {
            (Err(_), Some(is_over)) => {
                is_over.store(true, Ordering::Relaxed);
                Ok(false)
            }
            (taken, _) => taken.map_err(|micros| self.build_refusal(micros)),
        }
    }

    fn build_refusal(&self, micros: i64) -> Problem {
        let seconds = micros.clamp(1, LONGEST_PAUSE).unsigned_abs().div_ceil(1_000_000);
        let (name, limit) = self.limit;
        self.refused.with_label_values(&[name]).inc();
        let detail = format!(
            "Rate limit exceeded for tenant {}: {name} is {limit}. Retry after {seconds} s.",
            self.tenant
        );
        Problem::new(Kind::RateLimited, detail).retry_after(u32::try_from(seconds).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use prometheus::Opts;
    use unslide_model::FixedClock;

    /// A request of a tenant that may use this many units more at once, and one that begins after it.
    pub fn charge(units: u32) -> Charge {
        // The bucket holds two seconds' worth and is not full.
        let charge = request(f64::from(units + 1) / 2.0);
        charge.take_units(1, false).unwrap();
        charge
    }

    fn request(per_second: f64) -> Charge {
        Charge {
            buckets: Arc::default(),
            clock: Arc::new(FixedClock::at_micros(0)),
            refused: IntCounterVec::new(Opts::new("refused", "Refused."), &["limit"]).unwrap(),
            tenant: TenantId::new("acme").unwrap(),
            limit: ("units_per_second", 1),
            rate: Rate::with_burst(per_second, BURST_SECONDS),
            overdraw: false,
            prepaid: 0,
            rest: 0,
            overflow: None,
        }
    }

    fn retry_after(refused: Result<bool, Problem>) -> String {
        let response = crate::problem::render_problem(refused.unwrap_err().into_response(), "id");
        response.headers()["retry-after"].to_str().unwrap().to_owned()
    }

    #[test]
    fn bytes_are_paid_for_once_and_by_the_unit() {
        let mut charge = charge(20);
        charge.charge_received(10 * cost::UNIT_BYTES + 1).unwrap();
        charge.charge_unpacked(10 * cost::UNIT_BYTES).unwrap();
        // One byte that was received is left, and one is over a whole unit.
        charge.charge_unpacked(cost::UNIT_BYTES).unwrap();
        charge.charge_reports(10).unwrap();
        let refused = charge.charge_unpacked(cost::UNIT_BYTES).unwrap_err();
        assert_eq!(refused.kind(), Kind::RateLimited);
    }

    #[test]
    fn units_are_taken_all_or_none_and_other_tenants_have_their_own() {
        let acme = request(10.0);
        acme.take_units(15, false).unwrap();
        assert_eq!(retry_after(acme.take_units(15, false)), "2");
        let other = Charge { tenant: TenantId::new("umbrella").unwrap(), ..request(10.0) };
        other.take_units(20, false).unwrap();
        acme.take_units(5, false).unwrap();
    }

    #[test]
    fn reports_that_may_wait_in_overflow_are_not_refused_and_owe_nothing() {
        let mut charge = Charge { overflow: Some(AtomicBool::new(false)), ..charge(4) };
        charge.charge_reports(4).unwrap();
        assert!(!charge.is_over_rate());
        charge.charge_received(20 << 20).unwrap();
        charge.charge_reports(1_000).unwrap();
        assert!(charge.is_over_rate());
        assert!(Charge { overflow: None, ..charge }.take_units(1, false).is_ok(), "one unit is left");
    }

    #[test]
    fn a_request_that_may_overdraw_comes_to_its_end_and_is_paid_for() {
        let mut charge = Charge { overdraw: true, ..charge(4) };
        charge.charge_received(20 << 20).unwrap();
        charge.charge_reports(1_000).unwrap();
        // 320 and 999 are owed, at two and a half a second.
        assert_eq!(retry_after(charge.take_units(1, false)), "528");
    }

    #[test]
    fn after_the_time_that_a_refusal_names_any_request_fits() {
        let clock = Arc::new(FixedClock::at_micros(0));
        let charge = Charge { clock: clock.clone(), ..request(1.0) };
        assert!(charge.take_units(1, false).unwrap());
        charge.take_units(4, true).unwrap();
        assert_eq!(retry_after(charge.take_units(1, false)), "5");
        clock.advance_micros(5_000_000);
        assert!(charge.take_units(1, false).unwrap(), "the bucket is full");
    }
}
