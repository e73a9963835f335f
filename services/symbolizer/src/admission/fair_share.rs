//! Which tenant uses more than its fair share of a lane that has no time left. Times are microseconds of
//! the monotonic clock.
//!
//! A tenant's rate says what it may use of the installation. What this machine can bear is another matter:
//! where a lane is busy all the time, the tenant that uses the most of it goes on by way of overflow, and
//! those who share its partitions do not wait for it.

use parking_lot::Mutex;
use std::collections::HashMap;
use unslide_model::TenantId;

/// What a tenant has used counts for one to two of these.
const WINDOW: i64 = 30_000_000;
/// How fast the measure of how busy the lane is follows what is.
const REACTION: f64 = 2_000_000.0;
/// A lane that is busy for this part of the time has none left.
const SATURATED: f64 = 0.75;

/// What the tenants have used of one lane lately.
#[derive(Default)]
pub struct FairShares(Mutex<Usage>);

#[derive(Default)]
struct Usage {
    /// When the current window began.
    began: i64,
    tenants: HashMap<TenantId, Units>,
    all: Units,
    /// The part of the time for which the lane was busy.
    busy: f64,
    measured: i64,
}

/// Cost units of two windows.
#[derive(Clone, Copy, Default)]
struct Units {
    previous: u64,
    current: u64,
}

impl FairShares {
    /// The lane has processed a batch from `began` to `ended`.
    pub fn worked(&self, began: i64, ended: i64) {
        let mut usage = self.0.lock();
        let passed = ended.saturating_sub(usage.measured).max(1) as f64;
        let worked = (ended.saturating_sub(began) as f64).clamp(0.0, passed);
        let kept = (-passed / REACTION).exp();
        usage.busy = usage.busy * kept + worked / passed * (1.0 - kept);
        usage.measured = ended;
    }

    /// Notes that a tenant uses `units`. Returns false, and notes nothing, where it has used more than its
    /// share of a lane that has no time left.
    pub fn take(&self, tenant: &TenantId, now: i64, units: u64) -> bool {
        let mut usage = self.0.lock();
        usage.turn(now);
        if usage.busy >= SATURATED && usage.is_over(tenant) {
            return false;
        }
        usage.all.current += units;
        usage.tenants.entry(tenant.clone()).or_default().current += units;
        true
    }
}

impl Usage {
    /// Begins another window where this one is over.
    fn turn(&mut self, now: i64) {
        let passed = now.saturating_sub(self.began);
        if passed < WINDOW {
            return;
        }
        if passed >= 2 * WINDOW {
            self.tenants.clear();
            self.all = Units::default();
        }
        self.began = now;
        self.all.turn();
        self.tenants.retain(|_, units| {
            units.turn();
            units.previous > 0
        });
    }

    /// True for more than an equal part of what all have used; never for the only tenant.
    fn is_over(&self, tenant: &TenantId) -> bool {
        let own = self.tenants.get(tenant).map_or(0, Units::sum);
        own * self.tenants.len() as u64 > self.all.sum()
    }
}

impl Units {
    fn turn(&mut self) {
        *self = Units { previous: self.current, current: 0 };
    }

    fn sum(&self) -> u64 {
        self.previous + self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn tenant(slug: &str) -> TenantId {
        TenantId::new(slug).unwrap()
    }

    /// A lane that has worked without a pause for ten seconds.
    fn saturated() -> FairShares {
        let shares = FairShares::default();
        (0..10).for_each(|second| shares.worked(second * SECOND, (second + 1) * SECOND));
        shares
    }

    /// Proves: fairness
    #[test]
    fn in_a_saturated_lane_the_tenant_with_more_than_an_equal_part_gives_way() {
        let (shares, now) = (saturated(), 10 * SECOND);
        assert!(shares.take(&tenant("heavy"), now, 900), "it is the only one");
        assert!(shares.take(&tenant("heavy"), now, 900));
        assert!(shares.take(&tenant("quiet"), now, 1));
        assert!(!shares.take(&tenant("heavy"), now, 1));
        assert!(shares.take(&tenant("quiet"), now, 1));
        assert!(!shares.take(&tenant("heavy"), now + WINDOW, 1), "what was used still counts");
        assert!(shares.take(&tenant("heavy"), now + 3 * WINDOW, 1));
    }

    #[test]
    fn tenants_that_use_the_same_are_not_told_apart() {
        let (shares, now) = (saturated(), 10 * SECOND);
        for _ in 0..100 {
            for slug in ["one", "two", "three"] {
                assert!(shares.take(&tenant(slug), now, 5));
            }
        }
    }

    #[test]
    fn a_lane_with_time_left_takes_everything() {
        let shares = FairShares::default();
        for second in 0..20 {
            shares.worked(second * SECOND, second * SECOND + SECOND / 2);
        }
        assert!(shares.take(&tenant("quiet"), 20 * SECOND, 1));
        assert!((0..100).all(|_| shares.take(&tenant("heavy"), 20 * SECOND, 900)));
        // It becomes busy, and has time again.
        shares.worked(20 * SECOND, 30 * SECOND);
        assert!(!shares.take(&tenant("heavy"), 30 * SECOND, 900));
        shares.worked(40 * SECOND, 40 * SECOND + 1);
        assert!(shares.take(&tenant("heavy"), 40 * SECOND, 900));
    }
}
