//! A circuit breaker for object storage. A store that does not answer a check is at fault, and more tries would use up
//! every report's tries. If it answers and one object cannot be fetched, only its report is affected; if objects of
//! several tenants cannot, the store is at fault all the same.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use unslide_model::{DebugId, Scoped, TenantId};

/// Limits at which the breaker opens, and how long it stays open.
#[derive(Clone, Copy, Debug)]
pub struct BreakerLimits {
    /// Number of distinct debug ids that have to fail; more must fail than succeed.
    pub debug_ids: usize,
    /// Period in which failures and successes are counted.
    pub window: Duration,
    /// Time for which nothing is fetched after the breaker opens.
    pub open: Duration,
}

/// Decision whether a lane may fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Closed,
    /// Fetch a few symcaches. One that arrives closes the breaker; otherwise call [`Breaker::reopen`]. All
    /// other callers wait for the result.
    Probe,
    /// Fetches are not allowed for now.
    Open {
        /// Time to wait, in microseconds.
        wait_micros: i64,
        /// The failure that opened the breaker.
        reason: String,
    },
}

#[derive(Debug)]
enum State {
    Closed,
    Open {
        until: i64,
        reason: String,
    },
    /// One caller has been probing since `since`.
    Probing {
        since: i64,
        reason: String,
    },
}

#[derive(Debug)]
struct Inner {
    state: State,
    /// The last failure of each debug id, and its tenant.
    failed: HashMap<DebugId, (i64, TenantId)>,
    succeeded: VecDeque<i64>,
    opened: u64,
}

/// Circuit breaker that the lanes of a worker share.
#[derive(Debug)]
pub struct Breaker {
    limits: BreakerLimits,
    inner: Mutex<Inner>,
}

impl Breaker {
    pub fn new(limits: BreakerLimits) -> Breaker {
        let inner =
            Inner { state: State::Closed, failed: HashMap::new(), succeeded: VecDeque::new(), opened: 0 };
        Breaker { limits, inner: Mutex::new(inner) }
    }

    /// Returns what the caller may do at `now`, in microseconds of a clock. One caller at a time probes, for
    /// at most the time that the breaker stays open.
    pub fn request_permission(&self, now: i64) -> Verdict {
        let open = to_micros(self.limits.open);
        let mut inner = self.inner.lock();
        let (until, reason) = match &inner.state {
            State::Closed => return Verdict::Closed,
            State::Open { until, reason } => (*until, reason.clone()),
            // A probe that never ended: the lane lost its partitions, or the process was busy.
            State::Probing { since, reason } => (since.saturating_add(open), reason.clone()),
        };
        if now < until {
            return Verdict::Open { wait_micros: until - now, reason };
        }
        inner.state = State::Probing { since: now, reason };
        Verdict::Probe
    }

    /// Records a fetch that failed although the store answers. Opens the breaker if enough have failed for the store to
    /// be at fault. If most of them belong to one tenant, its data may be the cause, and the count begins again.
    pub fn record_failure(&self, id: &Scoped<DebugId>, now: i64, why: &str) {
        let mut inner = self.inner.lock();
        match inner.state {
            // The caller that probes reports the result of its probe.
            State::Open { .. } | State::Probing { .. } => return,
            State::Closed => {}
        }
        self.forget_old(&mut inner, now);
        // The map is bounded: at this size the breaker opens, unless as many fetches have succeeded.
        inner.failed.insert(id.id, (now, id.tenant.clone()));
        let failed = inner.failed.len();
        if failed < self.limits.debug_ids || failed <= inner.succeeded.len() {
            return;
        }
        let mut tenants: HashMap<&TenantId, usize> = HashMap::new();
        inner.failed.values().for_each(|(_, tenant)| *tenants.entry(tenant).or_default() += 1);
        let others = failed - tenants.values().max().copied().unwrap_or(0);
        if others < self.limits.debug_ids.div_ceil(2) {
            inner.failed.clear();
            return;
        }
        let reason = self.format_reason(failed, why);
        self.open_breaker(&mut inner, now, reason);
    }

    /// Opens the breaker because the store did not answer a check.
    pub fn record_outage(&self, now: i64, why: &str) {
        let mut inner = self.inner.lock();
        if matches!(inner.state, State::Closed) {
            self.open_breaker(&mut inner, now, why.to_owned());
        }
    }

    fn format_reason(&self, failed: usize, why: &str) -> String {
        let seconds = self.limits.window.as_secs();
        format!("symbols of {failed} debug ids could not be fetched in {seconds} s: {why}")
    }

    /// Opens the breaker again after a failed probe.
    pub fn reopen(&self, now: i64, why: &str) {
        self.open_breaker(&mut self.inner.lock(), now, why.to_owned());
    }

    /// Returns how many debug ids have to fail before the store is at fault.
    pub fn debug_ids(&self) -> usize {
        self.limits.debug_ids
    }

    /// Records a fetch that the store answered, with or without a symcache.
    pub fn record_success(&self, now: i64) {
        let mut inner = self.inner.lock();
        match inner.state {
            State::Open { .. } => {}
            State::Probing { .. } => inner.state = State::Closed,
            State::Closed => {
                self.forget_old(&mut inner, now);
                if inner.succeeded.len() < SUCCESSES_CAPACITY {
                    inner.succeeded.push_back(now);
                }
            }
        }
    }

    /// Returns true while fetches are blocked or limited to a probe.
    pub fn is_open(&self) -> bool {
        !matches!(self.inner.lock().state, State::Closed)
    }

    /// Returns how often the breaker opened.
    #[cfg(test)]
    pub fn opened(&self) -> u64 {
        self.inner.lock().opened
    }

    fn open_breaker(&self, inner: &mut Inner, now: i64, reason: String) {
        tracing::warn!(seconds = self.limits.open.as_secs_f64(), "nothing is fetched for a while: {reason}");
        inner.state = State::Open { until: now.saturating_add(to_micros(self.limits.open)), reason };
        inner.failed.clear();
        inner.succeeded.clear();
        inner.opened += 1;
    }

    fn forget_old(&self, inner: &mut Inner, now: i64) {
        let since = now.saturating_sub(to_micros(self.limits.window));
        inner.failed.retain(|_, (at, _)| *at > since);
        while inner.succeeded.front().is_some_and(|at| *at <= since) {
            inner.succeeded.pop_front();
        }
    }
}

/// Maximum number of remembered successes. Beyond that, as many failures have to outweigh them.
const SUCCESSES_CAPACITY: usize = 10_000;

fn to_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn breaker() -> Breaker {
        let limits =
            BreakerLimits { debug_ids: 3, window: Duration::from_secs(30), open: Duration::from_secs(10) };
        Breaker::new(limits)
    }

    /// A debug id; those that follow one another are of different tenants.
    fn id(n: u8) -> Scoped<DebugId> {
        TenantId::new(&format!("t-{}", n % 5)).unwrap().scope(DebugId([n; 16]))
    }

    fn fail(breaker: &Breaker, n: u8, now: i64) {
        breaker.record_failure(&id(n), now, "503");
    }

    fn open(breaker: &Breaker, now: i64) {
        (0..3).for_each(|n| fail(breaker, n, now));
        assert!(breaker.is_open());
    }

    #[test]
    fn one_object_however_often_it_fails_opens_nothing_and_many_do() {
        let breaker = breaker();
        (0..100).for_each(|n| fail(&breaker, 1, n));
        fail(&breaker, 2, 101);
        assert_eq!(breaker.request_permission(102), Verdict::Closed);
        fail(&breaker, 3, 102);
        let Verdict::Open { wait_micros, reason } = breaker.request_permission(102) else {
            panic!("not open")
        };
        assert_eq!(wait_micros, 10 * SECOND);
        assert!(reason.contains("3 debug ids") && reason.contains("503"), "{reason}");
        assert_eq!(breaker.opened(), 1);
    }

    #[test]
    fn failures_count_within_the_window_and_against_what_succeeds() {
        let breaker = breaker();
        (0..10).for_each(|n| fail(&breaker, n, i64::from(n) * 20 * SECOND));
        assert!(!breaker.is_open());
        let now = 1_000 * SECOND;
        (0..5).for_each(|_| breaker.record_success(now));
        (0..5).for_each(|n| fail(&breaker, n, now));
        assert!(!breaker.is_open(), "as many succeed");
        fail(&breaker, 9, now);
        assert!(breaker.is_open());
    }

    #[test]
    fn one_probe_is_let_through_and_decides() {
        let breaker = breaker();
        open(&breaker, 0);
        assert!(matches!(breaker.request_permission(10 * SECOND - 1), Verdict::Open { wait_micros: 1, .. }));
        assert_eq!(breaker.request_permission(10 * SECOND), Verdict::Probe);
        assert!(matches!(breaker.request_permission(10 * SECOND), Verdict::Open { .. }), "one at a time");
        fail(&breaker, 1, 11 * SECOND);
        assert_eq!(breaker.opened(), 1, "a fetch that began before says nothing");
        breaker.reopen(11 * SECOND, "still 503");
        assert!(
            matches!(breaker.request_permission(12 * SECOND), Verdict::Open { wait_micros, .. } if wait_micros == 9 * SECOND)
        );
        assert_eq!(breaker.request_permission(21 * SECOND), Verdict::Probe);
        breaker.record_success(21 * SECOND);
        assert_eq!((breaker.request_permission(21 * SECOND), breaker.opened()), (Verdict::Closed, 2));
    }

    #[test]
    fn a_probe_that_nobody_ends_is_given_to_another() {
        let breaker = breaker();
        open(&breaker, 0);
        assert_eq!(breaker.request_permission(10 * SECOND), Verdict::Probe);
        assert!(matches!(breaker.request_permission(20 * SECOND - 1), Verdict::Open { .. }));
        assert_eq!(breaker.request_permission(20 * SECOND), Verdict::Probe);
    }

    #[test]
    fn failures_of_one_tenant_do_not_open_it_and_an_outage_does_at_once() {
        let breaker = breaker();
        let noisy = |n: u8| TenantId::new("noisy").unwrap().scope(DebugId([n; 16]));
        (0..20).for_each(|n| breaker.record_failure(&noisy(n), 0, "503"));
        assert!(!breaker.is_open());
        breaker.record_outage(1, "503 SlowDown");
        let Verdict::Open { reason, .. } = breaker.request_permission(2) else { panic!("not open") };
        assert_eq!(reason, "503 SlowDown");
        breaker.record_outage(3, "again");
        assert_eq!(breaker.opened(), 1, "it is open already");
    }
}
