//! What crashed installations have in common: planted causes are found, and shuffled data has few.

use crate::simulation::{Simulation, count_releases};
use unslide_verdicts_statistics::{FALSE_DISCOVERY_RATE, ValueCounts, find_common_values};

const ALL: u64 = 2_000;
/// Flags of an app beside its models and systems.
const FLAGS: usize = 40;
/// A cause that more of all installations have is none that anyone would look for.
const CAUSE_SHARE_LIMIT: f64 = 0.5;

/// A fact with the shares of its values.
struct Fact {
    shares: Vec<f64>,
    /// The values that are counted. The last one of a flag is that it is not there.
    counted: usize,
}

/// Returns models, systems, and flags: most are on or absent, and some are experiments with three values.
fn list_facts() -> Vec<Fact> {
    let models =
        [0.2, 0.15, 0.1, 0.1, 0.08, 0.07, 0.05, 0.05, 0.04, 0.04, 0.03, 0.03, 0.02, 0.02, 0.01, 0.01];
    let systems = [0.4, 0.2, 0.15, 0.1, 0.05, 0.05, 0.03, 0.02];
    let mut facts = vec![
        Fact { shares: models.to_vec(), counted: models.len() },
        Fact { shares: systems.to_vec(), counted: systems.len() },
    ];
    for flag in 0..FLAGS {
        let share = f64::from(u32::try_from(flag % 20).unwrap() + 1) * 0.045;
        facts.push(match flag % 8 {
            7 => Fact { shares: vec![0.3, 0.3, 0.3, 0.1], counted: 3 },
            _ => Fact { shares: vec![share, 1.0 - share], counted: 1 },
        });
    }
    facts
}

/// A planted cause: a value of a fact.
#[derive(Clone, Copy, PartialEq)]
struct Cause {
    fact: usize,
    value: usize,
}

/// Returns the values that may be planted: one of four is a model or a system, and the others are flags.
fn list_causes(facts: &[Fact]) -> Vec<Cause> {
    let of_fact = |(fact, known): (usize, &Fact)| {
        let shares = known.shares.iter().take(known.counted).enumerate();
        let rare: Vec<Cause> = shares
            .filter(|(_, share)| **share <= CAUSE_SHARE_LIMIT)
            .map(|(value, _)| Cause { fact, value })
            .collect();
        rare
    };
    facts.iter().enumerate().flat_map(of_fact).collect()
}

/// Draws numbers of installations by the values of a fact.
fn draw(random: &mut Simulation, installations: u64, shares: &[f64]) -> Vec<u64> {
    let mut counts = vec![0; shares.len()];
    for _ in 0..installations {
        counts[random.draw_value(shares)] += 1;
    }
    counts
}

/// Simulates a bug. With a planted cause, nine of ten of its installations have that value, and the others are drawn without it.
fn simulate(seed: u64, facts: &[Fact], crashed: u64, planted: Option<Cause>) -> Vec<(Cause, ValueCounts)> {
    let mut random = Simulation::new(seed);
    let mut values = Vec::new();
    for (fact, known) in facts.iter().enumerate() {
        let all = draw(&mut random, ALL, &known.shares);
        let cause = planted.filter(|cause| cause.fact == fact);
        let caused = cause.map_or(0, |_| crashed * 9 / 10);
        let mut with_bug = draw(&mut random, crashed - caused, &known.shares);
        if let Some(cause) = cause {
            with_bug[cause.value] += caused;
        }
        for value in 0..known.counted {
            let counts =
                ValueCounts { crashed_with: with_bug[value], crashed, all_with: all[value], all: ALL };
            values.push((Cause { fact, value }, counts));
        }
    }
    values
}

/// Returns the values that are reported, the first one first.
fn find_reported(values: &[(Cause, ValueCounts)]) -> Vec<Cause> {
    let counts: Vec<ValueCounts> = values.iter().map(|(_, counts)| *counts).collect();
    find_common_values(&counts).into_iter().map(|index| values[index].0).collect()
}

#[test]
fn planted_causes_are_found_and_come_first() {
    let facts = list_facts();
    let causes = list_causes(&facts);
    let bugs = count_releases() / 4;
    for crashed in [20, 100, 400] {
        let (mut found, mut wrong) = (0, 0.0);
        for seed in 0..bugs {
            let cause = causes[usize::try_from(seed).unwrap() % causes.len()];
            let reported = find_reported(&simulate(seed, &facts, crashed, Some(cause)));
            found += usize::from(reported.first() == Some(&cause));
            let others = reported.iter().filter(|value| **value != cause).count();
            wrong += others as f64 / reported.len().max(1) as f64;
        }
        println!("{crashed} installations with a planted cause: it comes first in {found} of {bugs}");
        println!(
            "{crashed} installations with a planted cause: of what is reported {:.2} % is chance",
            wrong * 100.0 / bugs as f64
        );
        assert!(found as u64 * 100 >= bugs * 95, "{crashed}: {found}");
        assert!(wrong <= bugs as f64 * FALSE_DISCOVERY_RATE, "{crashed}: {wrong}");
    }
}

#[test]
fn shuffled_data_has_no_more_than_the_stated_rate() {
    let facts = list_facts();
    let bugs = count_releases() / 4;
    for crashed in [20, 100, 400] {
        let is_wrong = |seed: &u64| !find_reported(&simulate(*seed, &facts, crashed, None)).is_empty();
        let wrong = (0..bugs).filter(is_wrong).count();
        println!("{crashed} installations without a cause: something is reported of {wrong} of {bugs}");
        // Without a cause every report is chance: the rate of false discoveries is the share of bugs with any.
        assert!(wrong as u64 <= bugs / 20, "{crashed}: {wrong} at {FALSE_DISCOVERY_RATE}");
    }
}
