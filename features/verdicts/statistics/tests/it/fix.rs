//! Verdicts on fixes.

use crate::simulation::{Simulation, count_releases, is_one_percent};
use unslide_verdicts_statistics::{FixVerdict, VersionCounts, judge_fix};

const DAYS: usize = 60;
const SESSIONS_PER_DAY: u64 = 2_000;
const OLD_RATE: f64 = 0.001;

/// Simulates a release with a share of the old rate. Returns the counts before it, and those of each day.
fn simulate(seed: u64, share: f64) -> (VersionCounts, Vec<VersionCounts>) {
    let mut random = Simulation::new(seed);
    let mut draw = |sessions: u32, rate: f64| VersionCounts {
        sessions: sessions.into(),
        crashes: random.draw_count(f64::from(sessions) * rate),
    };
    let before = draw(100_000, OLD_RATE);
    let days = (0..DAYS).map(|_| draw(2_000, OLD_RATE * share)).collect();
    (before, days)
}

/// Counts the releases with a verdict after all daily looks.
fn count_verdicts(share: f64, verdict: FixVerdict) -> usize {
    let judge = |seed| {
        let (before, days) = simulate(seed, share);
        judge_fix(before, &days, VersionCounts::default()).verdict
    };
    (0..count_releases()).filter(|seed| judge(*seed) == verdict).count()
}

#[test]
fn at_most_one_percent_of_open_bugs_are_ever_called_fixed() {
    // A verdict that was once reached stays, so the last day counts the errors of all looks.
    for share in [0.25, 0.5, 1.0] {
        let wrong = count_verdicts(share, FixVerdict::Fixed);
        println!("rate {share} of the old one: {wrong} of {} are called fixed", count_releases());
        assert!(is_one_percent(wrong), "{share}: {wrong}");
    }
}

#[test]
fn at_most_one_percent_of_fixed_bugs_are_ever_called_not_fixed() {
    for share in [0.0, 0.01, 0.05] {
        let wrong = count_verdicts(share, FixVerdict::NotFixed);
        println!("rate {share} of the old one: {wrong} of {} are called not fixed", count_releases());
        assert!(is_one_percent(wrong), "{share}: {wrong}");
    }
}

#[test]
fn a_fix_has_its_verdict_after_a_median_of_sessions() {
    for (share, verdict) in [(0.0, FixVerdict::Fixed), (1.0, FixVerdict::NotFixed)] {
        let mut needed: Vec<u64> = (0..count_releases())
            .map(|seed| {
                let (before, days) = simulate(seed, share);
                let reached = (1..=DAYS).find(|day| {
                    judge_fix(before, &days[..*day], VersionCounts::default()).verdict == verdict
                });
                reached.map_or(u64::MAX, |day| day as u64 * SESSIONS_PER_DAY)
            })
            .collect();
        needed.sort_unstable();
        let median = needed[needed.len() / 2];
        println!("rate {share} of the old one: a verdict after {median} sessions (median)");
        assert!(median < 60_000, "{share}: {median}");
    }
}

#[test]
fn verdicts_have_their_numbers() {
    let before = VersionCounts { sessions: 110_000, crashes: 100 };
    let say = |sessions, crashes| {
        judge_fix(before, &[VersionCounts { sessions, crashes }], VersionCounts::default()).to_string()
    };
    assert_eq!(say(45_000, 0), "fixed: 0 in 45,000 sessions, 41 expected");
    assert_eq!(say(41_000, 12), "not fixed: 12, 37 expected: 3 times fewer");
    assert!(say(20_000, 0).starts_with("too early: "), "{}", say(20_000, 0));
}

#[test]
fn the_sessions_that_are_still_needed_suffice_and_one_less_does_not() {
    let before = VersionCounts { sessions: 110_000, crashes: 100 };
    let day = VersionCounts { sessions: 20_000, crashes: 0 };
    let FixVerdict::TooEarly { more_sessions: Some(more) } =
        judge_fix(before, &[day], VersionCounts::default()).verdict
    else {
        panic!("20,000 sessions are not enough");
    };
    let after = |sessions| {
        judge_fix(before, &[day, VersionCounts { sessions, crashes: 0 }], VersionCounts::default()).verdict
    };
    assert_eq!(after(more), FixVerdict::Fixed);
    assert_eq!(after(more - 1), FixVerdict::TooEarly { more_sessions: Some(1) });
}

#[test]
fn the_sessions_of_today_cannot_say_that_a_bug_is_fixed() {
    let before = VersionCounts { sessions: 110_000, crashes: 100 };
    let judge = |days: &[VersionCounts], crashes| {
        judge_fix(before, days, VersionCounts { sessions: 45_000, crashes })
    };
    let found = judge(&[], 0);
    assert!(matches!(found.verdict, FixVerdict::TooEarly { .. }), "{found}");
    assert_eq!(judge(&[VersionCounts { sessions: 45_000, crashes: 0 }], 0).since.sessions, 45_000);
    // Crashes of today belong to sessions of today, too.
    assert_eq!(judge(&[], 30).to_string(), "not fixed: 30, 41 expected");
    assert!(matches!(judge(&[], 1).verdict, FixVerdict::TooEarly { .. }));
}

#[test]
fn one_late_report_is_no_regression() {
    let before = VersionCounts { sessions: 110_000, crashes: 100 };
    let days = [VersionCounts { sessions: 60_000, crashes: 1 }];
    assert_ne!(judge_fix(before, &days, VersionCounts::default()).verdict, FixVerdict::NotFixed);
}

#[test]
fn what_no_number_of_sessions_can_decide_has_its_numbers_too() {
    let before = VersionCounts { sessions: 110_000, crashes: 1 };
    let found =
        judge_fix(before, &[VersionCounts { sessions: 110_000, crashes: 0 }], VersionCounts::default());
    assert_eq!(found.verdict, FixVerdict::TooEarly { more_sessions: None });
    assert_eq!(found.to_string(), "too early: 0 in 110,000 sessions, 1 expected");
}

#[test]
fn without_a_rate_before_nothing_is_certain() {
    let days = [VersionCounts { sessions: 1_000_000, crashes: 5 }];
    let found = judge_fix(VersionCounts::default(), &days, VersionCounts::default());
    assert_eq!(found.verdict, FixVerdict::TooEarly { more_sessions: None });
}
