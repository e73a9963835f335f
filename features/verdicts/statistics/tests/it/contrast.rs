//! What crashed installations have in common: planted causes are found, and shuffled data has few.

use crate::simulation::{Simulation, count_releases};
use unslide_verdicts_statistics::{FALSE_DISCOVERY_RATE, ValueCounts, find_common_values};

/// Shares of values of models, systems and a flag, as an app may have them.
const FACTS: [&[f64]; 3] = [
    &[0.2, 0.15, 0.1, 0.1, 0.08, 0.07, 0.05, 0.05, 0.04, 0.04, 0.03, 0.03, 0.02, 0.02, 0.01, 0.01],
    &[0.4, 0.2, 0.15, 0.1, 0.05, 0.05, 0.03, 0.02],
    &[0.69, 0.31],
];
const ALL: u64 = 2_000;

/// Draws numbers of installations by the values of a fact.
fn draw(random: &mut Simulation, installations: u64, shares: &[f64]) -> Vec<u64> {
    let mut counts = vec![0; shares.len()];
    for _ in 0..installations {
        counts[random.draw_value(shares)] += 1;
    }
    counts
}

/// Simulates a bug. With a planted value, which fact and which value, only nine of ten of its installations are drawn without it.
fn simulate(seed: u64, crashed: u64, planted: Option<(usize, usize)>) -> Vec<ValueCounts> {
    let mut random = Simulation::new(seed);
    let mut values = Vec::new();
    for (fact, shares) in FACTS.iter().enumerate() {
        let all = draw(&mut random, ALL, shares);
        let cause = planted.filter(|(of, _)| *of == fact).map(|(_, value)| value);
        let caused = cause.map_or(0, |_| crashed * 9 / 10);
        let mut with_bug = draw(&mut random, crashed - caused, shares);
        if let Some(value) = cause {
            with_bug[value] += caused;
        }
        let counts = with_bug.iter().zip(all);
        values.extend(counts.map(|(crashed_with, all_with)| ValueCounts {
            crashed_with: *crashed_with,
            crashed,
            all_with,
            all: ALL,
        }));
    }
    values
}

#[test]
fn planted_causes_are_found_and_come_first() {
    let bugs = count_releases() / 4;
    for crashed in [20, 100, 400] {
        let mut found = 0;
        for seed in 0..bugs {
            let fact = usize::try_from(seed % 3).unwrap();
            let value = usize::try_from(seed / 3).unwrap() % FACTS[fact].len();
            // Nine of ten have the value that seven of ten have anyway: no cause that anyone would look for.
            let value = if fact == 2 { 1 } else { value };
            let before: usize = FACTS[..fact].iter().map(|shares| shares.len()).sum();
            let reported = find_common_values(&simulate(seed, crashed, Some((fact, value))));
            found += usize::from(reported.first() == Some(&(before + value)));
        }
        println!("{crashed} installations with a planted cause: it comes first in {found} of {bugs}");
        assert!(found as u64 * 100 >= bugs * 95, "{crashed}: {found}");
    }
}

#[test]
fn shuffled_data_has_no_more_than_the_stated_rate() {
    let bugs = count_releases() / 4;
    for crashed in [20, 100, 400] {
        let wrong =
            (0..bugs).filter(|seed| !find_common_values(&simulate(*seed, crashed, None)).is_empty()).count();
        println!("{crashed} installations without a cause: something is reported of {wrong} of {bugs}");
        // Without a cause every report is chance: the rate of false discoveries is the share of bugs with any.
        assert!(wrong as u64 <= bugs / 20, "{crashed}: {wrong} at {FALSE_DISCOVERY_RATE}");
    }
}
