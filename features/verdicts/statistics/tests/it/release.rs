//! Verdicts on releases.

use crate::simulation::{Simulation, count_releases, is_one_percent};
use unslide_verdicts_statistics::{DayComparison, MEASURES_LIMIT, ReleaseVerdict, judge_release};

const DAYS: usize = 14;
const SESSIONS_BEFORE: u32 = 10_000;
const RATE: f64 = 0.005;

/// Simulates a phased release: its share of the sessions grows from day to day.
fn simulate(random: &mut Simulation, multiple: f64) -> Vec<DayComparison> {
    let day = |day: usize| {
        let sessions = u32::try_from(day + 1).unwrap() * 500;
        DayComparison {
            sessions: sessions.into(),
            events: random.draw_count(f64::from(sessions) * RATE * multiple),
            sessions_before: SESSIONS_BEFORE.into(),
            events_before: random.draw_count(f64::from(SESSIONS_BEFORE) * RATE),
        }
    };
    (0..DAYS).map(day).collect()
}

/// Simulates the measures of a release, the first of which changed.
fn simulate_measures(seed: u64, multiple: f64) -> [Vec<DayComparison>; MEASURES_LIMIT] {
    let mut random = Simulation::new(seed);
    [multiple, 1.0, 1.0, 1.0, 1.0].map(|multiple| simulate(&mut random, multiple))
}

/// Returns the first of the daily looks with a verdict, and the verdict.
fn find_first_verdict(seed: u64, multiple: f64) -> Option<(usize, ReleaseVerdict)> {
    let measures = simulate_measures(seed, multiple);
    (1..=DAYS).find_map(|day| {
        let verdict = judge_release(&measures.each_ref().map(|days| &days[..day])).verdict;
        (verdict != ReleaseVerdict::TooEarly).then_some((day, verdict))
    })
}

/// Returns the releases with a verdict at one of 14 daily looks, and its median day.
fn count_verdicts(multiple: f64, wanted: ReleaseVerdict) -> (usize, Option<usize>) {
    let found = (0..count_releases()).filter_map(|seed| find_first_verdict(seed, multiple));
    let mut days: Vec<usize> = found.filter(|(_, verdict)| *verdict == wanted).map(|(day, _)| day).collect();
    days.sort_unstable();
    (days.len(), days.get(days.len() / 2).copied())
}

#[test]
fn at_most_one_percent_of_equal_releases_are_called_bad_at_14_looks() {
    // A verdict that was once reached stays, so the last day counts the false alarms of all looks, those after a good verdict, too.
    let is_bad = |seed: &u64| {
        let measures = simulate_measures(*seed, 1.0);
        judge_release(&measures.each_ref().map(Vec::as_slice)).verdict == ReleaseVerdict::Bad
    };
    let wrong = (0..count_releases()).filter(is_bad).count();
    println!("equal releases, 14 daily looks: {wrong} of {} are called bad", count_releases());
    assert!(is_one_percent(wrong), "{wrong}");
}

#[test]
fn at_most_one_percent_of_releases_that_are_half_worse_are_called_good() {
    let (wrong, _) = count_verdicts(1.5, ReleaseVerdict::Good);
    println!("one and a half of the rate: {wrong} of {} are called good", count_releases());
    assert!(is_one_percent(wrong), "{wrong}");
}

#[test]
fn a_release_with_twice_the_crashes_is_bad_and_an_equal_one_good() {
    let releases = usize::try_from(count_releases()).unwrap();
    let day = |day: Option<usize>| day.map_or_else(String::new, |day| format!(", half of them by day {day}"));
    for multiple in [0.8, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0] {
        let (bad, bad_day) = count_verdicts(multiple, ReleaseVerdict::Bad);
        let (good, good_day) = count_verdicts(multiple, ReleaseVerdict::Good);
        println!(
            "{multiple} times the crashes: of {releases}, {bad} bad{}; {good} good{}",
            day(bad_day),
            day(good_day)
        );
        assert!(multiple < 2.0 || bad * 100 > 95 * releases, "{multiple}: {bad}");
        assert!(multiple > 1.0 || good * 2 > releases, "{multiple}: {good}");
    }
}

#[test]
fn a_release_with_rare_events_is_good_without_any_before() {
    let day =
        |sessions, events| DayComparison { sessions, events, sessions_before: 50_000, events_before: 0 };
    let verdict = |sessions, events| judge_release(&[&[day(sessions, events)]]).verdict;
    assert_eq!(verdict(2_000, 0), ReleaseVerdict::TooEarly);
    assert_eq!(verdict(10_000, 0), ReleaseVerdict::Good);
    assert_eq!(verdict(10_000, 40), ReleaseVerdict::Bad);
}

#[test]
fn a_measure_has_its_numbers() {
    let day =
        |before| DayComparison { sessions: 1_000, events: 30, sessions_before: before, events_before: 40 };
    let found = judge_release(&[&[day(2_000), day(4_000), day(0)]]).measures[0];
    assert_eq!((found.sessions, found.events), (2_000, 60));
    assert!((found.expected - 30.0).abs() < 1e-9, "{}", found.expected);
}

#[test]
fn days_without_one_of_the_versions_say_nothing() {
    let day = DayComparison { sessions: 1_000, events: 500, ..DayComparison::default() };
    assert_eq!(judge_release(&[&[day]]).verdict, ReleaseVerdict::TooEarly);
    assert_eq!(judge_release(&[]).verdict, ReleaseVerdict::TooEarly);
}
