//! Whether a release is worse than the version before it, on the days on which both are in use.

use crate::ERROR_LIMIT;
use crate::count::to_real;
use crate::evidence::{MixtureEvidence, poisson_log_ratio};

/// The most measures of one release. They share the error of a false alarm.
pub const MEASURES_LIMIT: usize = 5;
/// A bad release has more than this multiple of the rate before: the first who update differ a little from the others.
pub const TOLERATED_MULTIPLE: f64 = 1.1;
/// A good release has less than this multiple of the rate before.
pub const WORSE_MULTIPLE: f64 = 1.5;
/// Or it has fewer events than this in a session, whatever the version before has.
pub const RARE_RATE: f64 = 0.001;
/// Multiples of the rate before that a bad release may have.
const BAD_ALTERNATIVES: [f64; 6] = [1.25, 1.4, 1.6, 2.0, 3.0, 5.0];
/// Multiples that a good release may have.
const GOOD_ALTERNATIVES: [f64; 4] = [0.5, 0.75, 1.0, 1.2];
/// Shares of the rate of rare events that a good release may have.
const RARE_ALTERNATIVES: [f64; 3] = [0.0, 0.2, 0.5];

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
    /// Every measure is below one and a half of the rate before, or rare.
    Good,
    /// A measure is more than a tenth above the rate before.
    Bad,
    /// Neither of both is certain yet.
    TooEarly,
}

/// The verdict on one measure and its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureEvidence {
    pub verdict: ReleaseVerdict,
    /// Sessions and events of the release on the days on which both versions are in use.
    pub sessions: u64,
    pub events: u64,
    /// Events in these sessions at the rate of the version before on the same days.
    pub expected: f64,
}

/// The verdict on a release, and that on each of its measures.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseEvidence {
    pub verdict: ReleaseVerdict,
    pub measures: Vec<MeasureEvidence>,
}

/// Evaluates the days of some measures, at most [`MEASURES_LIMIT`].
///
/// Only events of the same day are compared: how an app is used on some day concerns both versions. Of the events of a day, each
/// belongs to the new version with a chance that the sessions of both determine, whatever the rate is. The measures share the error
/// of a false alarm. Each has the whole error of a release that is called good, because each must be good.
#[must_use]
pub fn judge_release(measures: &[&[DayComparison]]) -> ReleaseEvidence {
    let measures: Vec<MeasureEvidence> = measures.iter().map(|days| judge_measure(days)).collect();
    let any_is = |wanted| measures.iter().any(|measure| measure.verdict == wanted);
    let verdict = if any_is(ReleaseVerdict::Bad) {
        ReleaseVerdict::Bad
    } else if measures.is_empty() || any_is(ReleaseVerdict::TooEarly) {
        ReleaseVerdict::TooEarly
    } else {
        ReleaseVerdict::Good
    };
    ReleaseEvidence { verdict, measures }
}

fn judge_measure(days: &[DayComparison]) -> MeasureEvidence {
    let (alarm_error, good_error) = (ERROR_LIMIT / to_real(MEASURES_LIMIT as u64), ERROR_LIMIT / 2.0);
    let mut against_tolerated = MixtureEvidence::new();
    let mut against_worse = MixtureEvidence::new();
    let mut against_common = MixtureEvidence::new();
    let (mut sessions, mut events, mut expected) = (0_u64, 0_u64, 0.0);
    for day in days.iter().filter(|day| day.sessions > 0 && day.sessions_before > 0) {
        against_tolerated
            .add_day(BAD_ALTERNATIVES.map(|multiple| log_ratio(day, multiple, TOLERATED_MULTIPLE)));
        against_worse.add_day(GOOD_ALTERNATIVES.map(|multiple| log_ratio(day, multiple, WORSE_MULTIPLE)));
        let rare = |share| poisson_log_ratio(day.sessions, day.events, RARE_RATE, share);
        against_common.add_day(RARE_ALTERNATIVES.map(rare));
        sessions = sessions.saturating_add(day.sessions);
        events = events.saturating_add(day.events);
        expected += to_real(day.sessions) * to_real(day.events_before) / to_real(day.sessions_before);
    }
    let verdict = if against_tolerated.rejects(alarm_error) {
        ReleaseVerdict::Bad
    } else if against_worse.rejects(good_error) || against_common.rejects(good_error) {
        ReleaseVerdict::Good
    } else {
        ReleaseVerdict::TooEarly
    };
    MeasureEvidence { verdict, sessions, events, expected }
}

/// Returns the logarithm of the likelihood ratio of two multiples of the rate before, given all events of the day.
fn log_ratio(day: &DayComparison, multiple: f64, hypothesis: f64) -> f64 {
    let (sessions, before) = (to_real(day.sessions), to_real(day.sessions_before));
    let change = ((sessions * hypothesis + before) / (sessions * multiple + before)).ln();
    to_real(day.events) * (change + (multiple / hypothesis).ln()) + to_real(day.events_before) * change
}
