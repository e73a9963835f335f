//! Verdicts on releases.

use crate::simulation::Simulation;
use unslide_verdicts_statistics::{DayComparison, ReleaseVerdict, judge_release};

const RELEASES: u64 = 10_000;
const DAYS: u32 = 14;
const SESSIONS_BEFORE: u32 = 10_000;
const RATE: f64 = 0.005;
const MEASURES: usize = 4;

/// Simulates a phased release: its share of the sessions grows from day to day.
fn simulate(random: &mut Simulation, multiple: f64) -> Vec<DayComparison> {
    let day = |day: u32| {
        let sessions = (day + 1) * 500;
        DayComparison {
            sessions: sessions.into(),
            events: random.draw_count(f64::from(sessions) * RATE * multiple),
            sessions_before: SESSIONS_BEFORE.into(),
            events_before: random.draw_count(f64::from(SESSIONS_BEFORE) * RATE),
        }
    };
    (0..DAYS).map(day).collect()
}

/// Counts the verdicts after 14 daily looks at four measures, the first of which changed.
fn count_verdicts(releases: u64, multiple: f64, verdict: ReleaseVerdict) -> usize {
    let judge = |seed| {
        let mut random = Simulation::new(seed);
        let multiples = [multiple, 1.0, 1.0, 1.0];
        let days: [Vec<DayComparison>; MEASURES] = multiples.map(|multiple| simulate(&mut random, multiple));
        judge_release(&days.each_ref().map(Vec::as_slice)).verdict
    };
    (0..releases).filter(|seed| judge(*seed) == verdict).count()
}

#[test]
fn at_most_one_percent_of_equal_releases_are_called_bad_at_14_looks() {
    let wrong = count_verdicts(RELEASES, 1.0, ReleaseVerdict::Bad);
    println!("false alarms: {wrong} of {RELEASES}");
    assert!(wrong <= 100, "{wrong}");
}

#[test]
fn at_most_one_percent_of_releases_that_are_half_worse_are_called_good() {
    let wrong = count_verdicts(RELEASES, 1.5, ReleaseVerdict::Good);
    println!("called good at one and a half of the rate: {wrong} of {RELEASES}");
    assert!(wrong <= 100, "{wrong}");
}

#[test]
fn a_release_with_twice_the_crashes_is_bad() {
    for multiple in [1.0, 1.1, 1.25, 1.5, 2.0, 3.0] {
        let bad = count_verdicts(1_000, multiple, ReleaseVerdict::Bad);
        let good = count_verdicts(1_000, multiple, ReleaseVerdict::Good);
        println!("multiple {multiple}: {bad} of 1000 bad, {good} of 1000 good");
        assert!(multiple < 2.0 || bad > 950, "{multiple}: {bad}");
    }
}

#[test]
fn days_without_one_of_the_versions_say_nothing() {
    let day = DayComparison { sessions: 1_000, events: 500, ..DayComparison::default() };
    assert_eq!(judge_release(&[&[day]]).verdict, ReleaseVerdict::TooEarly);
    assert_eq!(judge_release(&[]).verdict, ReleaseVerdict::TooEarly);
}
