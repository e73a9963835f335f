//! Token buckets, single or per key. Time is an argument: microseconds of the monotonic clock.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;

/// The number of buckets above which [`TokenBuckets`] drops those that are full again.
const MOST_BUCKETS: usize = 10_000;

/// The maximum debt, in bursts: each token of a burst may admit a record that turns out to hold a
/// thousand reports.
const MOST_OWED: f64 = 1_000.0;

/// The rounding error that many small refills may add up to, in tokens.
const ROUNDING: f64 = 1e-9;

/// A token bucket: tokens arrive at a steady rate, up to a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenBucket {
    tokens: f64,
    at_micros: i64,
}

/// The rate and capacity of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Tokens per second, more than 0.
    pub per_second: f64,
    /// The maximum number of tokens in an idle bucket.
    pub burst: f64,
}

impl Rate {
    /// Creates a rate of `per_second` tokens per second. The bucket holds the tokens of `seconds`, but at least one, so
    /// that a low rate admits something at all.
    pub fn with_burst(per_second: f64, seconds: f64) -> Rate {
        Rate { per_second, burst: (per_second * seconds).max(1.0) }
    }
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn full(rate: Rate, now: i64) -> TokenBucket {
        TokenBucket { tokens: rate.burst, at_micros: now }
    }

    fn fill(&mut self, rate: Rate, now: i64) {
        let elapsed = now.saturating_sub(self.at_micros).max(0) as f64 / 1e6;
        self.tokens = (self.tokens + elapsed * rate.per_second).min(rate.burst);
        self.at_micros = self.at_micros.max(now);
    }

    /// Takes tokens if the bucket has them. A cost above the bucket's capacity is admitted when the bucket is full, and
    /// the rest becomes debt.
    pub fn try_take(&mut self, rate: Rate, now: i64, tokens: f64) -> bool {
        self.fill(rate, now);
        let there = self.tokens + ROUNDING >= tokens.min(rate.burst);
        if there {
            self.tokens -= tokens;
        }
        there
    }

    /// Takes tokens for work that is already done. Missing tokens become debt.
    pub fn charge_tokens(&mut self, rate: Rate, now: i64, tokens: f64) {
        self.fill(rate, now);
        self.tokens = (self.tokens - tokens).max(-rate.burst * MOST_OWED);
    }

    /// Returns the microseconds until the bucket has this many tokens, or is full if that is less.
    pub fn wait_micros(&mut self, rate: Rate, now: i64, tokens: f64) -> i64 {
        self.fill(rate, now);
        let lacking = (tokens.min(rate.burst) - self.tokens).max(0.0);
        // Rounded up, so that the bucket has the tokens at that time.
        (lacking / rate.per_second * 1e6).ceil() as i64
    }

    /// Returns true if the bucket is full, like a new one.
    pub fn is_full(&mut self, rate: Rate, now: i64) -> bool {
        self.fill(rate, now);
        self.tokens >= rate.burst
    }
}

/// A bucket for each key that takes tokens. A bucket that is full again holds no information and may be dropped.
#[derive(Debug)]
pub struct TokenBuckets<K>(Mutex<HashMap<K, (TokenBucket, Rate)>>);

impl<K> Default for TokenBuckets<K> {
    fn default() -> TokenBuckets<K> {
        TokenBuckets(Mutex::default())
    }
}

impl<K: Eq + Hash> TokenBuckets<K> {
    /// Calls `work` with the bucket of `key`, which fills at `rate` from now on.
    pub fn with_bucket<T>(
        &self,
        key: K,
        rate: Rate,
        now: i64,
        work: impl FnOnce(&mut TokenBucket) -> T,
    ) -> T {
        let mut buckets = self.0.lock();
        if buckets.len() >= MOST_BUCKETS && !buckets.contains_key(&key) {
            buckets.retain(|_, (bucket, rate)| !bucket.is_full(*rate, now));
        }
        let (bucket, last) = buckets.entry(key).or_insert_with(|| (TokenBucket::full(rate, now), rate));
        *last = rate;
        work(bucket)
    }

    /// Returns the number of buckets.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns true if there are no buckets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10.0, burst: 5.0 };

    fn taken(bucket: &mut TokenBucket, now: i64) -> usize {
        (0..100).take_while(|_| bucket.try_take(RATE, now, 1.0)).count()
    }

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate() {
        let mut bucket = TokenBucket::full(RATE, 0);
        assert_eq!(taken(&mut bucket, 0), 5);
        assert_eq!(taken(&mut bucket, 99_999), 0);
        assert_eq!(taken(&mut bucket, 100_000), 1);
        assert_eq!(taken(&mut bucket, 400_000), 3);
        let rest: usize = (1..=100).map(|n| taken(&mut bucket, 400_000 + n * 100_000)).sum();
        assert_eq!(rest, 100, "ten a second for ten seconds");
        assert_eq!(taken(&mut bucket, 3_600_000_000), 5, "an idle hour saves up one burst");
    }

    #[test]
    fn a_time_that_goes_back_gives_nothing_twice() {
        let mut bucket = TokenBucket::full(RATE, 1_000_000);
        assert_eq!(taken(&mut bucket, 1_000_000), 5);
        assert_eq!(taken(&mut bucket, 0), 0);
        assert_eq!(taken(&mut bucket, 1_000_000), 0);
        assert_eq!(taken(&mut bucket, 1_100_000), 1);
    }

    #[test]
    fn a_wait_ends_when_the_tokens_are_there() {
        let mut bucket = TokenBucket::full(RATE, 0);
        assert_eq!(bucket.wait_micros(RATE, 0, 1.0), 0);
        taken(&mut bucket, 0);
        let wait = bucket.wait_micros(RATE, 0, 3.0);
        assert_eq!(wait, 300_000);
        assert_eq!(taken(&mut bucket, wait), 3);
        assert_eq!(bucket.wait_micros(RATE, wait, 1_000.0), 500_000, "never more than a full bucket");
    }

    #[test]
    fn what_is_owed_is_paid_before_anything_is_taken_and_is_bounded() {
        let mut bucket = TokenBucket::full(RATE, 0);
        bucket.charge_tokens(RATE, 0, 7.0);
        assert_eq!(taken(&mut bucket, 200_000), 0);
        assert_eq!(taken(&mut bucket, 300_000), 1);
        bucket.charge_tokens(RATE, 300_000, 1e9);
        // A burst of five records of a thousand elements, and the burst itself.
        assert!(!{ bucket }.is_full(RATE, 300_000 + 500_400_000));
        assert!(bucket.is_full(RATE, 300_000 + 500_500_000));
    }

    #[test]
    fn a_record_of_a_thousand_elements_is_paid_for_whatever_the_rate() {
        let rate = Rate::with_burst(10.0, 2.0);
        let mut bucket = TokenBucket::full(rate, 0);
        assert!(bucket.try_take(rate, 0, 1.0));
        bucket.charge_tokens(rate, 0, 999.0);
        let second = 1_000_000;
        assert_eq!((1..=98).find(|n| bucket.try_take(rate, n * second, 1.0)), None);
        assert_eq!(bucket.wait_micros(rate, 98 * second, 1.0), second / 10);
        assert!(bucket.try_take(rate, 98 * second + second / 10, 1.0));
        assert!(!bucket.try_take(rate, 98 * second + second / 10, 1.0));
    }

    #[test]
    fn what_costs_more_than_the_bucket_holds_waits_for_a_full_one_and_is_paid_for() {
        let mut bucket = TokenBucket::full(RATE, 0);
        assert!(bucket.try_take(RATE, 0, 1.0));
        assert!(!bucket.try_take(RATE, 0, 25.0));
        assert_eq!(bucket.wait_micros(RATE, 0, 25.0), 100_000);
        assert!(bucket.try_take(RATE, 100_000, 25.0));
        assert_eq!(bucket.wait_micros(RATE, 100_000, 1.0), 2_100_000);
        // A cost of several tokens is all or nothing.
        assert!(!bucket.try_take(RATE, 2_300_000, 4.0) && bucket.try_take(RATE, 2_300_000, 2.0));
    }

    #[test]
    fn a_low_rate_lets_one_through() {
        let rate = Rate::with_burst(0.01, 2.0);
        assert!(TokenBucket::full(rate, 0).try_take(rate, 0, 1.0));
    }

    #[test]
    fn full_buckets_are_dropped_when_there_are_many() {
        let buckets = TokenBuckets::default();
        for key in 0..MOST_BUCKETS {
            buckets.with_bucket(key, RATE, 0, |bucket| assert!(bucket.try_take(RATE, 0, 1.0)));
        }
        assert_eq!(buckets.len(), MOST_BUCKETS);
        buckets.with_bucket(MOST_BUCKETS, RATE, 60_000_000, |_| ());
        assert_eq!(buckets.len(), 1);
    }
}
