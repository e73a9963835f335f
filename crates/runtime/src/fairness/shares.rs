//! Decides which tenant uses more than its share of a reader that has no time left. Times are microseconds of the
//! monotonic clock.
//!
//! A tenant's rate limits its use of the installation. The capacity of this machine is another limit. If a reader is
//! busy all the time, it puts aside the records of the tenant that uses most of it. Other tenants of the same
//! partitions do not wait for them.

use parking_lot::Mutex;
use std::collections::HashMap;
use unslide_model::TenantId;

/// Length of a window, in microseconds. The use of a tenant counts for one to two windows.
const USAGE_WINDOW: i64 = 30_000_000;
/// The default time in which a reader's measured load follows its real load, in microseconds.
const BUSY_REACTION: f64 = 2_000_000.0;
/// The busy part of the time from which a reader has no time left.
const SATURATED: f64 = 0.75;

/// The recent use of one reader by its tenants.
#[derive(Debug)]
pub struct FairShares {
    usage: Mutex<Usage>,
    /// The number of shares reserved for tenants that send nothing yet.
    reserved: u64,
    busy_reaction: f64,
}

#[derive(Debug, Default)]
struct Usage {
    /// The start of the current window.
    began: i64,
    tenants: HashMap<TenantId, Units>,
    all: Units,
    /// The part of the time for which the reader was busy.
    busy: f64,
    measured: i64,
}

/// Cost units of two windows.
#[derive(Clone, Copy, Debug, Default)]
struct Units {
    previous: u64,
    current: u64,
}

impl Default for FairShares {
    fn default() -> FairShares {
        FairShares { usage: Mutex::default(), reserved: 0, busy_reaction: BUSY_REACTION }
    }
}

impl FairShares {
    /// Creates shares with one in reserve: a tenant that starts to send finds time even if another one used all of it.
    /// `busy_reaction` is the time in which the measured load follows the real load.
    #[must_use]
    pub fn with_reserve(busy_reaction: std::time::Duration) -> FairShares {
        let busy_reaction = (busy_reaction.as_secs_f64() * 1e6).max(1.0);
        FairShares { usage: Mutex::default(), reserved: 1, busy_reaction }
    }

    /// Records that the reader worked on a batch from `began` to `ended`. Time between two batches was idle.
    pub fn record_busy(&self, began: i64, ended: i64) {
        let mut usage = self.usage.lock();
        let passed = ended.saturating_sub(usage.measured).max(1) as f64;
        let worked = (ended.saturating_sub(began) as f64).clamp(0.0, passed);
        let kept = (-passed / self.busy_reaction).exp();
        usage.busy = usage.busy * kept + worked / passed * (1.0 - kept);
        usage.measured = ended;
    }

    /// Charges `units` to a tenant. Returns false, and charges nothing, if the tenant has used more than its share of a
    /// reader that has no time left.
    pub fn try_take(&self, tenant: &TenantId, now: i64, units: u64) -> bool {
        let mut usage = self.usage.lock();
        usage.begin_window(now);
        if usage.busy >= SATURATED && usage.is_over_share(tenant, self.reserved) {
            return false;
        }
        usage.charge_units(tenant, units);
        true
    }

    /// Charges `units` to a tenant, regardless of its use.
    pub fn charge_units(&self, tenant: &TenantId, now: i64, units: u64) {
        let mut usage = self.usage.lock();
        usage.begin_window(now);
        usage.charge_units(tenant, units);
    }

    /// Returns the units that a tenant has used recently.
    #[must_use]
    pub fn used_units(&self, tenant: &TenantId, now: i64) -> u64 {
        let mut usage = self.usage.lock();
        usage.begin_window(now);
        usage.tenants.get(tenant).map_or(0, Units::sum)
    }
}

impl Usage {
    /// Begins another window if the current one is over.
    fn begin_window(&mut self, now: i64) {
        let passed = now.saturating_sub(self.began);
        if passed < USAGE_WINDOW {
            return;
        }
        if passed >= 2 * USAGE_WINDOW {
            self.tenants.clear();
            self.all = Units::default();
        }
        self.began = now;
        self.all.begin_window();
        self.tenants.retain(|_, units| {
            units.begin_window();
            units.previous > 0
        });
    }

    fn charge_units(&mut self, tenant: &TenantId, units: u64) {
        self.all.current += units;
        self.tenants.entry(tenant.clone()).or_default().current += units;
    }

    /// Returns true for more than an equal part of the total use. Without a reserve, never true for the only tenant.
    fn is_over_share(&self, tenant: &TenantId, reserved: u64) -> bool {
        let own = self.tenants.get(tenant).map_or(0, Units::sum);
        own * (self.tenants.len() as u64 + reserved) > self.all.sum()
    }
}

impl Units {
    fn begin_window(&mut self) {
        *self = Units { previous: self.current, current: 0 };
    }

    fn sum(&self) -> u64 {
        self.previous + self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND: i64 = 1_000_000;

    fn tenant(slug: &str) -> TenantId {
        TenantId::new(slug).unwrap()
    }

    /// Shares of a reader that has worked without a pause for ten seconds.
    fn saturated(shares: FairShares) -> FairShares {
        (0..10).for_each(|second| shares.record_busy(second * SECOND, (second + 1) * SECOND));
        shares
    }

    /// Proves: fairness
    #[test]
    fn in_a_saturated_reader_the_tenant_with_more_than_an_equal_part_gives_way() {
        let (shares, now) = (saturated(FairShares::default()), 10 * SECOND);
        assert!(shares.try_take(&tenant("heavy"), now, 900), "it is the only one");
        assert!(shares.try_take(&tenant("heavy"), now, 900));
        assert!(shares.try_take(&tenant("quiet"), now, 1));
        assert!(!shares.try_take(&tenant("heavy"), now, 1));
        assert!(shares.try_take(&tenant("quiet"), now, 1));
        assert!(!shares.try_take(&tenant("heavy"), now + USAGE_WINDOW, 1), "what was used still counts");
        assert!(shares.try_take(&tenant("heavy"), now + 3 * USAGE_WINDOW, 1));
    }

    #[test]
    fn tenants_that_use_the_same_are_not_told_apart() {
        let (shares, now) = (saturated(FairShares::default()), 10 * SECOND);
        for _ in 0..100 {
            for slug in ["one", "two", "three"] {
                assert!(shares.try_take(&tenant(slug), now, 5));
            }
        }
    }

    #[test]
    fn a_reader_with_time_left_takes_everything() {
        let shares = FairShares::default();
        for second in 0..20 {
            shares.record_busy(second * SECOND, second * SECOND + SECOND / 2);
        }
        assert!(shares.try_take(&tenant("quiet"), 20 * SECOND, 1));
        assert!((0..100).all(|_| shares.try_take(&tenant("heavy"), 20 * SECOND, 900)));
        // It becomes busy, and has time again.
        shares.record_busy(20 * SECOND, 30 * SECOND);
        assert!(!shares.try_take(&tenant("heavy"), 30 * SECOND, 900));
        shares.record_busy(40 * SECOND, 40 * SECOND + 1);
        assert!(shares.try_take(&tenant("heavy"), 40 * SECOND, 900));
    }

    /// Proves: fairness
    #[test]
    fn with_a_reserve_the_only_tenant_of_a_saturated_reader_gives_way_too() {
        let shares = saturated(FairShares::with_reserve(Duration::from_millis(500)));
        let now = 10 * SECOND;
        assert!(shares.try_take(&tenant("heavy"), now, 900), "it has used nothing yet");
        assert!(!shares.try_take(&tenant("heavy"), now, 1));
        assert!((0..10).all(|_| shares.try_take(&tenant("quiet"), now, 1)), "the reserve is its own");
        // Half a second without work, and there is time again.
        shares.record_busy(now + SECOND / 2, now + SECOND / 2);
        assert!(shares.try_take(&tenant("heavy"), now + SECOND / 2, 1));
    }

    #[test]
    fn what_is_charged_counts_as_use() {
        let (shares, now) = (saturated(FairShares::default()), 10 * SECOND);
        assert!(shares.try_take(&tenant("heavy"), now, 1));
        assert!(shares.try_take(&tenant("quiet"), now, 10));
        shares.charge_units(&tenant("heavy"), now, 90);
        assert_eq!(shares.used_units(&tenant("heavy"), now), 91);
        assert!(!shares.try_take(&tenant("heavy"), now, 1));
        assert_eq!(shares.used_units(&tenant("heavy"), now + 2 * USAGE_WINDOW), 0);
    }
}
