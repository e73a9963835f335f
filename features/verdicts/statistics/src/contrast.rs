//! What the installations that met a bug have in common, beside all installations.
//!
//! Each value of each fact is compared by Fisher's exact test, one-sided, and the values that are reported are chosen by the procedure of
//! Benjamini and Hochberg, so that on average at most [`FALSE_DISCOVERY_RATE`] of them are chance.

use crate::count::to_real;
use statrs::distribution::{DiscreteCDF, Hypergeometric};

/// The share of reported values that may be chance, on average over many bugs.
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;
/// Fewer installations with the bug and a value say nothing about it.
pub const CRASHED_FLOOR: u64 = 5;
/// How many times more often a value must be among those with the bug to be worth a line.
const LIFT_FLOOR: f64 = 1.5;

/// Numbers of installations with one value of a fact, and of those that say the fact at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueCounts {
    /// With the bug and the value.
    pub crashed_with: u64,
    /// Installations with the bug, with any value.
    pub crashed: u64,
    /// Of all installations, with the value.
    pub all_with: u64,
    /// All installations of the sample, with any value.
    pub all: u64,
}

impl ValueCounts {
    /// Returns the share of the value among installations with the bug.
    #[must_use]
    pub fn crashed_share(&self) -> f64 {
        to_real(self.crashed_with) / to_real(self.crashed.max(1))
    }

    /// Returns the share of the value among all installations.
    #[must_use]
    pub fn share(&self) -> f64 {
        to_real(self.all_with) / to_real(self.all.max(1))
    }

    /// Returns true if the value is frequent enough in both together to be tested. Whether it is frequent with the bug must not
    /// decide that: the tests that are counted would be chosen by their results.
    fn is_tested(&self) -> bool {
        let is_possible = self.crashed_with <= self.crashed && self.all_with <= self.all;
        is_possible && self.crashed.min(self.crashed_with + self.all_with) >= CRASHED_FLOOR
    }

    fn is_worth_a_line(&self) -> bool {
        self.crashed_with >= CRASHED_FLOOR && self.crashed_share() >= LIFT_FLOOR * self.share()
    }

    /// Returns the chance of so many installations with the value or more, if the bug does not depend on it.
    fn chance(&self) -> f64 {
        let (all, with) = (self.crashed + self.all, self.crashed_with + self.all_with);
        let drawn = Hypergeometric::new(all, with, self.crashed);
        match self.crashed_with.checked_sub(1) {
            Some(fewer) => drawn.map_or(1.0, |drawn| drawn.sf(fewer)),
            None => 1.0,
        }
    }
}

/// Returns the indexes of the values that are more frequent with the bug than chance explains, the most telling first. `values` are all
/// values of all facts, also those that no installation with the bug has.
#[must_use]
pub fn find_common_values(values: &[ValueCounts]) -> Vec<usize> {
    let tested = values.iter().enumerate().filter(|(_, value)| value.is_tested());
    let mut chances: Vec<(f64, usize)> = tested.map(|(index, value)| (value.chance(), index)).collect();
    chances.sort_by(|one, other| one.0.total_cmp(&other.0));
    let tests = to_real(chances.len() as u64);
    let holds = |(rank, (chance, _)): &(usize, &(f64, usize))| {
        *chance <= FALSE_DISCOVERY_RATE * to_real(*rank as u64 + 1) / tests
    };
    let kept = chances.iter().enumerate().filter(holds).map(|(rank, _)| rank + 1).next_back().unwrap_or(0);
    let found = chances.into_iter().take(kept).map(|(_, index)| index);
    found.filter(|index| values[*index].is_worth_a_line()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts([crashed_with, crashed, all_with, all]: [u64; 4]) -> ValueCounts {
        ValueCounts { crashed_with, crashed, all_with, all }
    }

    #[test]
    fn the_chance_is_that_of_the_exact_test() {
        // Fisher's tea: 3 of 4 right of 8 cups.
        let tea = counts([3, 4, 1, 4]).chance();
        assert!((tea - 17.0 / 70.0).abs() < 1e-12, "{tea}");
        assert!((counts([0, 4, 1, 4]).chance() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_value_that_stands_out_is_found_first_and_a_frequent_one_is_not() {
        let values = [
            counts([290, 300, 5_000, 5_300]),
            counts([300, 300, 1_500, 5_000]),
            counts([150, 300, 1_500, 5_000]),
            counts([4, 300, 0, 5_000]),
        ];
        assert_eq!(find_common_values(&values), [1, 2]);
        assert_eq!(find_common_values(&[]), Vec::<usize>::new());
    }
}
