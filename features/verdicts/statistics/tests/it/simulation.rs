//! Random counts from a seed.

/// Returns the number of simulated releases: 10,000 for `scripts/bench verdicts`, else 1,000.
pub fn count_releases() -> u64 {
    std::env::var("UNSLIDE_TEST_RELEASES").map_or(1_000, |releases| releases.parse().unwrap())
}

/// Returns true if at most one of a hundred releases is wrong.
pub fn is_one_percent(wrong: usize) -> bool {
    wrong as u64 * 100 <= count_releases()
}

/// A generator of random numbers (SplitMix64).
pub struct Simulation(u64);

impl Simulation {
    pub fn new(seed: u64) -> Simulation {
        Simulation(seed)
    }

    /// Returns a number from 0 to 1.
    fn draw_share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        f64::from(u32::try_from(bits >> 32).unwrap()) / f64::from(u32::MAX)
    }

    /// Returns the index of a value, each with its share.
    pub fn draw_value(&mut self, shares: &[f64]) -> usize {
        let mut left = self.draw_share();
        for (index, share) in shares.iter().enumerate() {
            left -= share;
            if left <= 0.0 {
                return index;
            }
        }
        shares.len() - 1
    }

    /// Returns a count with a Poisson distribution: the events of a process within a time.
    pub fn draw_count(&mut self, mean: f64) -> u64 {
        let (mut time, mut count) = (0.0, 0);
        loop {
            time -= self.draw_share().max(f64::MIN_POSITIVE).ln();
            if time > mean {
                return count;
            }
            count += 1;
        }
    }
}
