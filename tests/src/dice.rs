//! Chance that a seed repeats, on every machine and with every version.

use std::time::Duration;

/// A stream of numbers that its seed decides (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn number_below(&mut self, end: u64) -> u64 {
        // What the remainder favours does not matter at these sizes.
        self.roll() % end
    }

    /// Whether an event with a chance of `chance` in a hundred happens.
    pub fn has_chance(&mut self, chance: u64) -> bool {
        self.number_below(100) < chance
    }

    /// A time between two, to the millisecond.
    pub fn time_between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = u64::try_from(to.saturating_sub(from).as_millis()).unwrap_or(u64::MAX - 1);
        from + Duration::from_millis(self.number_below(span + 1))
    }

    /// One of several.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick_one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let place = self.number_below(of.len() as u64);
        &of[usize::try_from(place).unwrap_or(0)]
    }

    /// A stream of its own, which does not depend on how much of this one is used later.
    #[must_use]
    pub fn fork_stream(&mut self) -> Dice {
        Dice(self.roll())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_everything_that_follows() {
        // The published first numbers of the generator for the seed 1234567.
        let mut dice = Dice::new(1_234_567);
        assert_eq!([dice.roll(), dice.roll()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        let span = |seed| {
            let mut dice = Dice::new(seed);
            (0..50)
                .map(|_| dice.time_between(Duration::from_secs(1), Duration::from_secs(3)))
                .collect::<Vec<_>>()
        };
        assert_eq!(span(5), span(5));
        assert_ne!(span(5), span(6));
        assert!(span(5).iter().all(|t| (1_000..=3_000).contains(&t.as_millis())));
    }
}
