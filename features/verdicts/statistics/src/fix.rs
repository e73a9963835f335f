//! Whether a bug is fixed: crashes since the fix, against the rate before it.

use crate::ERROR_LIMIT;
use crate::count::{format_count, to_real};
use crate::evidence::{MixtureEvidence, poisson_log_ratio};
use std::fmt::{self, Display, Formatter};

/// A fixed bug has less than this share of its old rate.
const FIXED_SHARE: f64 = 0.25;
/// A bug that is not fixed has more than this share: less may come from old caches and late reports.
const LEFTOVER_SHARE: f64 = 0.05;
/// Rates below the hypothesis "not fixed", as shares of its own rate.
const FIXED_ALTERNATIVES: [f64; 3] = [0.0, 0.15, 0.4];
/// Rates above the hypothesis "fixed", as multiples of its own rate.
const OPEN_ALTERNATIVES: [f64; 3] = [2.0, 5.0, 15.0];
/// The most sessions that a verdict asks for, as a multiple of those before the fix.
const MORE_SESSIONS_LIMIT: u64 = 100;
/// Steps of a search by halves, enough for every bit of a number.
const SEARCH_STEPS: u32 = 100;

/// Sessions of some versions, and the crashes of one bug in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionCounts {
    pub sessions: u64,
    pub crashes: u64,
}

/// Whether a bug is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixVerdict {
    /// The rate is below a quarter of the old one.
    Fixed,
    /// The rate is above a twentieth of the old one.
    NotFixed,
    /// Neither of both is certain yet.
    TooEarly {
        /// Sessions without a crash until the bug is fixed. None if no reasonable number suffices.
        more_sessions: Option<u64>,
    },
}

/// A verdict and its numbers. As text: `fixed: 0 in 41,000 sessions, 37 expected`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixEvidence {
    pub verdict: FixVerdict,
    /// Sessions and crashes since the fix. Those of a fixed bug are without the sessions of today.
    pub since: VersionCounts,
    /// Crashes in these sessions at the old rate.
    pub expected: f64,
}

/// Evaluates the crashes of each day since a fix against the rate before it.
///
/// The sessions of `today` say that a bug is not fixed, but not that it is: most apps report a crash at their next start.
///
/// Half of the error is for the old rate, which is an estimate, too. The counts before the fix must not change between two readings.
#[must_use]
pub fn judge_fix(before: VersionCounts, days: &[VersionCounts], today: VersionCounts) -> FixEvidence {
    let settled = VersionCounts { sessions: 0, ..today };
    let sum = |today: VersionCounts| {
        let add = |sum: VersionCounts, day: &VersionCounts| VersionCounts {
            sessions: sum.sessions.saturating_add(day.sessions),
            crashes: sum.crashes.saturating_add(day.crashes),
        };
        days.iter().fold(today, add)
    };
    let since = sum(settled);
    if before.sessions == 0 || before.crashes == 0 {
        return FixEvidence { verdict: FixVerdict::TooEarly { more_sessions: None }, since, expected: 0.0 };
    }
    let half = ERROR_LIMIT / 2.0;
    let per_session = |crashes: f64| crashes / to_real(before.sessions);
    let open_rate = FIXED_SHARE * per_session(lower_mean(before.crashes, half));
    let fixed_rate = LEFTOVER_SHARE * per_session(upper_mean(before.crashes, half));
    let mut against_open = MixtureEvidence::new();
    let mut against_fixed = MixtureEvidence::new();
    for day in days.iter().chain([&settled]) {
        against_open.add_day(
            FIXED_ALTERNATIVES.map(|share| poisson_log_ratio(day.sessions, day.crashes, open_rate, share)),
        );
    }
    for day in days.iter().chain([&today]) {
        against_fixed.add_day(
            OPEN_ALTERNATIVES
                .map(|multiple| poisson_log_ratio(day.sessions, day.crashes, fixed_rate, multiple)),
        );
    }
    let verdict = if against_fixed.rejects(half) {
        FixVerdict::NotFixed
    } else if against_open.rejects(half) {
        FixVerdict::Fixed
    } else {
        let limit = before.sessions.saturating_mul(MORE_SESSIONS_LIMIT);
        FixVerdict::TooEarly { more_sessions: find_more_sessions(&against_open, open_rate, limit) }
    };
    let since = if verdict == FixVerdict::NotFixed { sum(today) } else { since };
    FixEvidence { verdict, since, expected: per_session(to_real(before.crashes)) * to_real(since.sessions) }
}

fn find_more_sessions(evidence: &MixtureEvidence<3>, rate: f64, limit: u64) -> Option<u64> {
    let suffices = |sessions| {
        let ratios = FIXED_ALTERNATIVES.map(|share| poisson_log_ratio(sessions, 0, rate, share));
        evidence.would_reject(ratios, ERROR_LIMIT / 2.0)
    };
    let (mut low, mut high) = (0, limit);
    if !suffices(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if suffices(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// Returns a lower bound of the mean of a Poisson count, by Chernoff's inequality: it needs no distribution function.
fn lower_mean(count: u64, error: f64) -> f64 {
    let count = to_real(count);
    find_bound(count, error, 0.0, count)
}

/// Returns an upper bound of the mean of a Poisson count, by the same inequality.
fn upper_mean(count: u64, error: f64) -> f64 {
    let count = to_real(count);
    find_bound(count, error, count + 30.0 + 10.0 * count.sqrt(), count)
}

/// Searches between a mean that is too far from the count and one that is near enough.
fn find_bound(count: f64, error: f64, mut far: f64, mut near: f64) -> f64 {
    for _ in 0..SEARCH_STEPS {
        let mean = f64::midpoint(far, near);
        let log_chance = -(mean - count + count * (count / mean).ln());
        if log_chance < error.ln() { far = mean } else { near = mean }
    }
    far
}

impl Display for FixEvidence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (crashes, sessions) = (format_count(self.since.crashes), format_count(self.since.sessions));
        let expected = self.expected;
        match self.verdict {
            FixVerdict::Fixed => write!(f, "fixed: {crashes} in {sessions} sessions, {expected:.0} expected"),
            FixVerdict::NotFixed => {
                write!(f, "not fixed: {crashes}, {expected:.0} expected")?;
                let times = expected / to_real(self.since.crashes.max(1));
                if times >= 1.5 { write!(f, ": {times:.0} times fewer") } else { Ok(()) }
            }
            FixVerdict::TooEarly { more_sessions: Some(more) } => {
                write!(f, "too early: {} more sessions", format_count(more))
            }
            FixVerdict::TooEarly { more_sessions: None } if expected > 0.0 => {
                write!(f, "too early: {crashes} in {sessions} sessions, {expected:.0} expected")
            }
            FixVerdict::TooEarly { more_sessions: None } => {
                f.write_str("too early: no rate before the fix is known")
            }
        }
    }
}
