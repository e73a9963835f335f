//! Whether a release is worse than the version before it, on the days on which both are in use.

use crate::ERROR_LIMIT;
use crate::count::to_real;
use crate::evidence::MixtureEvidence;

/// A good release has less than this multiple of the rate before.
const WORSE_MULTIPLE: f64 = 1.5;
/// Multiples of the rate before that a bad release may have.
const BAD_ALTERNATIVES: [f64; 6] = [1.15, 1.3, 1.6, 2.0, 3.0, 5.0];
/// Multiples that a good release may have.
const GOOD_ALTERNATIVES: [f64; 4] = [0.5, 0.75, 1.0, 1.2];

/// One measure of two versions on one day: sessions, and how many of them had an event such as a crash or a hang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayComparison {
    pub sessions: u64,
    pub events: u64,
    pub sessions_before: u64,
    pub events_before: u64,
}

/// Whether a release may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseVerdict {
    /// Every measure is below one and a half of the rate before.
    Good,
    /// A measure is above the rate before.
    Bad,
    /// Neither is certain.
    TooEarly,
}

/// The verdict on a release, and that on each of its measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseEvidence {
    pub verdict: ReleaseVerdict,
    pub measures: Vec<ReleaseVerdict>,
}

/// Evaluates the days of some measures, which share the error among them.
///
/// Only events of the same day are compared: how an app is used on some day concerns both versions. Of the events of a day, each
/// belongs to the new version with a chance that the sessions of both determine, whatever the rate is.
#[must_use]
pub fn judge_release(measures: &[&[DayComparison]]) -> ReleaseEvidence {
    let error = ERROR_LIMIT / to_real(measures.len().max(1) as u64);
    let measures: Vec<ReleaseVerdict> = measures.iter().map(|days| judge_measure(days, error)).collect();
    let verdict = if measures.contains(&ReleaseVerdict::Bad) {
        ReleaseVerdict::Bad
    } else if !measures.is_empty() && measures.iter().all(|verdict| *verdict == ReleaseVerdict::Good) {
        ReleaseVerdict::Good
    } else {
        ReleaseVerdict::TooEarly
    };
    ReleaseEvidence { verdict, measures }
}

fn judge_measure(days: &[DayComparison], error: f64) -> ReleaseVerdict {
    let mut against_equal = MixtureEvidence::new();
    let mut against_worse = MixtureEvidence::new();
    for day in days.iter().filter(|day| day.sessions > 0 && day.sessions_before > 0) {
        against_equal.add_day(BAD_ALTERNATIVES.map(|multiple| log_ratio(day, multiple, 1.0)));
        against_worse.add_day(GOOD_ALTERNATIVES.map(|multiple| log_ratio(day, multiple, WORSE_MULTIPLE)));
    }
    if against_equal.rejects(error) {
        ReleaseVerdict::Bad
    } else if against_worse.rejects(error) {
        ReleaseVerdict::Good
    } else {
        ReleaseVerdict::TooEarly
    }
}

/// Returns the logarithm of the likelihood ratio of two multiples of the rate before, given all events of the day.
fn log_ratio(day: &DayComparison, multiple: f64, hypothesis: f64) -> f64 {
    let (sessions, before) = (to_real(day.sessions), to_real(day.sessions_before));
    let change = ((sessions * hypothesis + before) / (sessions * multiple + before)).ln();
    to_real(day.events) * (change + (multiple / hypothesis).ln()) + to_real(day.events_before) * change
}
