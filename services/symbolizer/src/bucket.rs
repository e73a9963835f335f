//! A token bucket. Time is an argument: microseconds of one clock, never going back by itself.

use unslide_report::MOST_ELEMENTS;

/// Tokens that come at a steady rate, up to a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    tokens: f64,
    at_micros: i64,
}

/// How a bucket fills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Tokens a second; more than 0.
    pub per_second: f64,
    /// The most tokens that an idle bucket saves up.
    pub burst: f64,
}

impl Rate {
    /// A rate whose bucket holds what comes in `seconds`, and one token at least, so that a low rate
    /// lets something through at all.
    pub fn with_burst(per_second: f64, seconds: f64) -> Rate {
        Rate { per_second, burst: (per_second * seconds).max(1.0) }
    }
}

impl Bucket {
    /// A full bucket.
    pub fn full(rate: Rate, now: i64) -> Bucket {
        Bucket { tokens: rate.burst, at_micros: now }
    }

    fn fill(&mut self, rate: Rate, now: i64) {
        let elapsed = now.saturating_sub(self.at_micros).max(0) as f64 / 1e6;
        self.tokens = (self.tokens + elapsed * rate.per_second).min(rate.burst);
        self.at_micros = self.at_micros.max(now);
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, rate: Rate, now: i64) -> bool {
        self.fill(rate, now);
        let there = self.tokens >= 1.0;
        if there {
            self.tokens -= 1.0;
        }
        there
    }

    /// Takes tokens for what has been done already; what is not there is owed. No more can be done before
    /// it is known than what a burst of the largest records holds, so no more is owed.
    pub fn owe(&mut self, rate: Rate, now: i64, tokens: f64) {
        self.fill(rate, now);
        let most = rate.burst * MOST_ELEMENTS as f64;
        self.tokens = (self.tokens - tokens).max(-most);
    }

    /// Microseconds until there are so many tokens, or a full bucket if that is less.
    pub fn wait(&mut self, rate: Rate, now: i64, tokens: f64) -> i64 {
        self.fill(rate, now);
        let lacking = (tokens.min(rate.burst) - self.tokens).max(0.0);
        // Rounded up: who comes back then finds them.
        (lacking / rate.per_second * 1e6).ceil() as i64
    }

    /// True where the bucket says nothing that a new one would not say.
    pub fn is_full(&mut self, rate: Rate, now: i64) -> bool {
        self.fill(rate, now);
        self.tokens >= rate.burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10.0, burst: 5.0 };

    fn taken(bucket: &mut Bucket, now: i64) -> usize {
        (0..100).take_while(|_| bucket.take(RATE, now)).count()
    }

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate() {
        let mut bucket = Bucket::full(RATE, 0);
        assert_eq!(taken(&mut bucket, 0), 5);
        assert_eq!(taken(&mut bucket, 99_999), 0);
        assert_eq!(taken(&mut bucket, 100_000), 1);
        assert_eq!(taken(&mut bucket, 400_000), 3);
        let rest: usize = (1..=100).map(|n| taken(&mut bucket, 400_000 + n * 100_000)).sum();
        assert_eq!(rest, 100, "ten a second for ten seconds");
        assert_eq!(taken(&mut bucket, 3_600_000_000), 5, "an idle hour saves up one burst");
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing_twice() {
        let mut bucket = Bucket::full(RATE, 1_000_000);
        assert_eq!(taken(&mut bucket, 1_000_000), 5);
        assert_eq!(taken(&mut bucket, 0), 0);
        assert_eq!(taken(&mut bucket, 1_000_000), 0);
        assert_eq!(taken(&mut bucket, 1_100_000), 1);
    }

    #[test]
    fn a_wait_ends_when_the_tokens_are_there() {
        let mut bucket = Bucket::full(RATE, 0);
        assert_eq!(bucket.wait(RATE, 0, 1.0), 0);
        taken(&mut bucket, 0);
        let wait = bucket.wait(RATE, 0, 3.0);
        assert_eq!(wait, 300_000);
        assert_eq!(taken(&mut bucket, wait), 3);
        assert_eq!(bucket.wait(RATE, wait, 1_000.0), 500_000, "never more than a full bucket");
    }

    #[test]
    fn what_is_owed_is_paid_before_anything_is_taken_and_is_bounded() {
        let mut bucket = Bucket::full(RATE, 0);
        bucket.owe(RATE, 0, 7.0);
        assert_eq!(taken(&mut bucket, 200_000), 0);
        assert_eq!(taken(&mut bucket, 300_000), 1);
        bucket.owe(RATE, 300_000, 1e9);
        // A burst of five records of a thousand elements, and the burst itself.
        assert!(!{ bucket }.is_full(RATE, 300_000 + 500_400_000));
        assert!(bucket.is_full(RATE, 300_000 + 500_500_000));
    }

    #[test]
    fn a_record_of_a_thousand_elements_is_paid_for_whatever_the_rate() {
        let rate = Rate::with_burst(10.0, 2.0);
        let mut bucket = Bucket::full(rate, 0);
        assert!(bucket.take(rate, 0));
        bucket.owe(rate, 0, 999.0);
        let second = 1_000_000;
        assert_eq!((1..=98).find(|n| bucket.take(rate, n * second)), None);
        assert_eq!(bucket.wait(rate, 98 * second, 1.0), second / 10);
        assert!(bucket.take(rate, 98 * second + second / 10));
        assert!(!bucket.take(rate, 98 * second + second / 10));
    }

    #[test]
    fn a_low_rate_lets_one_through() {
        let rate = Rate::with_burst(0.01, 2.0);
        assert!(Bucket::full(rate, 0).take(rate, 0));
    }
}
