//! The retry tiers: topics in which each record waits a fixed time.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use unslide_proto::topics::TopicNames;
use unslide_stream::RecordRef;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// `unslide.retry.1s`: for symcaches that are on their way
    OneSecond,
    TenSeconds,
    Minute,
    TenMinutes,
}

impl Tier {
    /// Returns the next tier after this number of failed tries, or `None` once a record was in every tier.
    pub fn after_tries(tries: u32) -> Option<Tier> {
        match tries {
            0 | 1 => Some(Tier::TenSeconds),
            2 => Some(Tier::Minute),
            3 => Some(Tier::TenMinutes),
            _ => None,
        }
    }

    /// Returns the tier with this topic.
    pub fn for_topic(names: &TopicNames, topic: &str) -> Option<Tier> {
        let mut tiers = [Tier::OneSecond, Tier::TenSeconds, Tier::Minute, Tier::TenMinutes].into_iter();
        tiers.find(|tier| tier.topic(names) == topic)
    }

    /// Returns the topic of the tier.
    pub fn topic(self, names: &TopicNames) -> &str {
        match self {
            Tier::OneSecond => &names.retry_1s,
            Tier::TenSeconds => &names.retry_10s,
            Tier::Minute => &names.retry_1m,
            Tier::TenMinutes => &names.retry_10m,
        }
    }

    /// Returns how long a record waits from its arrival in the tier. The delay is the same for all records,
    /// so the first record of a partition is always the first that is due.
    pub fn delay(self) -> Duration {
        match self {
            Tier::OneSecond => Duration::from_secs(1),
            Tier::TenSeconds => Duration::from_secs(10),
            Tier::Minute => Duration::from_secs(60),
            Tier::TenMinutes => Duration::from_secs(600),
        }
    }
}

/// The current time of both clocks, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// Time of the wall clock, which is compared with a record's time.
    pub wall: i64,
    /// Time of the monotonic clock.
    pub monotonic: i64,
}

/// Last record seen of a partition, and a bound for its arrival.
struct PartitionTimes {
    /// Offset of the last record that was seen.
    offset: i64,
    time: i64,
    seen: i64,
    /// No record of this partition arrived later than its time plus this, by the monotonic clock.
    arrived_by: i64,
}

/// Computes when the records of the tiers are due. A record's time and this host's wall clock come from two
/// clocks, and either may be set. A record waits at most its tier's delay from when it was first seen, and so
/// do those behind it. A record that arrived a second after another is due a second after it.
#[derive(Default)]
pub struct TierWaits(Mutex<HashMap<(Arc<str>, i32), PartitionTimes>>);

impl TierWaits {
    /// Returns the microseconds until a record with this time is due; not positive if it is due now.
    pub fn wait_micros(&self, tier: Tier, at: &RecordRef, time: i64, now: ClockReading) -> i64 {
        let delay = i64::try_from(tier.delay().as_micros()).unwrap_or(i64::MAX);
        let arrived_by = self.arrived_by(at, time, now.monotonic, delay);
        let due = time.saturating_add(delay).saturating_sub(now.wall);
        let latest = time.saturating_add(arrived_by).saturating_add(delay).saturating_sub(now.monotonic);
        due.min(latest)
    }

    fn arrived_by(&self, at: &RecordRef, time: i64, now: i64, delay: i64) -> i64 {
        let mut partitions = self.0.lock();
        let new = PartitionTimes { offset: at.offset, time, seen: now, arrived_by: now.saturating_sub(time) };
        let known = partitions.entry((Arc::clone(&at.topic), at.partition)).or_insert(new);
        let first = now.saturating_sub(time);
        // The broker's clock was set back, or may have been while no records arrived.
        let anew = at.offset > known.offset
            && (time < known.time || now.saturating_sub(known.seen) > delay.saturating_mul(2));
        known.arrived_by = if anew { first } else { known.arrived_by.min(first) };
        (known.offset, known.time, known.seen) = (at.offset, time, now);
        known.arrived_by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;

    fn wait(waits: &TierWaits, offset: i64, time: i64, wall: i64, monotonic: i64) -> i64 {
        let at = RecordRef { topic: "tier".into(), partition: 0, offset };
        waits.wait_micros(Tier::TenSeconds, &at, time, ClockReading { wall, monotonic })
    }

    #[test]
    fn a_record_waits_its_delay_from_its_arrival() {
        let waits = TierWaits::default();
        assert_eq!(wait(&waits, 1, HOUR, HOUR + 3 * SECOND, 0), 7 * SECOND);
        assert_eq!(wait(&waits, 1, HOUR, HOUR + 10 * SECOND, 7 * SECOND), 0);
        assert_eq!(wait(&waits, 2, HOUR + 5 * SECOND, HOUR + 10 * SECOND, 7 * SECOND), 5 * SECOND);
    }

    #[test]
    fn a_record_from_the_future_waits_no_longer_and_those_behind_it_do_not_add_up() {
        let waits = TierWaits::default();
        // A hundred records, one each second, of a broker that is an hour ahead, or after this host's
        // clock was set back by one.
        let time = |n: i64| 2 * HOUR + n * SECOND;
        let (mut wall, mut monotonic) = (HOUR + 100 * SECOND, 100 * SECOND);
        assert_eq!(wait(&waits, 0, time(0), wall, monotonic), 10 * SECOND);
        (wall, monotonic) = (wall + 10 * SECOND, monotonic + 10 * SECOND);
        for n in 0..100 {
            assert_eq!(wait(&waits, n, time(n), wall, monotonic), 0, "{n}");
            (wall, monotonic) = (wall + SECOND, monotonic + SECOND);
        }
    }

    #[test]
    fn a_step_of_the_wall_clock_makes_nobody_wait_for_longer() {
        for step in [-HOUR, HOUR] {
            let waits = TierWaits::default();
            let first = wait(&waits, 1, HOUR, HOUR, 0);
            assert_eq!(first, 10 * SECOND);
            assert!(wait(&waits, 1, HOUR, HOUR + 4 * SECOND + step, 4 * SECOND) <= 6 * SECOND);
            assert!(wait(&waits, 1, HOUR, HOUR + first + step, first) <= 0);
        }
    }

    #[test]
    fn a_clock_of_the_broker_that_was_mended_leaves_the_delay_as_it_was() {
        let waits = TierWaits::default();
        wait(&waits, 1, 2 * HOUR, HOUR, 0);
        assert_eq!(wait(&waits, 2, HOUR + SECOND, HOUR + SECOND, SECOND), 10 * SECOND);
        // Nothing came for two hours, after which the times are past those of the wrong clock.
        wait(&waits, 3, 2 * HOUR, HOUR, 10 * SECOND);
        let later = 3 * HOUR;
        assert_eq!(wait(&waits, 4, later, later, 2 * HOUR), 10 * SECOND);
        // A record that is read again is not a new one.
        assert_eq!(wait(&waits, 4, later, later - HOUR, 2 * HOUR + 10 * SECOND), 0);
    }

    #[test]
    fn each_try_goes_to_a_longer_wait_and_the_fourth_is_the_last() {
        let names = TopicNames::with_prefix("x.");
        let topics: Vec<_> = (1..=3).map(|tries| Tier::after_tries(tries).unwrap().topic(&names)).collect();
        assert_eq!(topics, ["x.unslide.retry.10s", "x.unslide.retry.1m", "x.unslide.retry.10m"]);
        assert_eq!(Tier::after_tries(4), None);
        for topic in topics {
            assert_eq!(Tier::for_topic(&names, topic).unwrap().topic(&names), topic);
        }
        assert_eq!(Tier::for_topic(&names, &names.retry_1s), Some(Tier::OneSecond));
        assert_eq!(Tier::for_topic(&names, &names.overflow), None);
        assert!(Tier::OneSecond.delay() < Tier::TenSeconds.delay());
        assert!(Tier::TenSeconds.delay() < Tier::Minute.delay());
        assert!(Tier::Minute.delay() < Tier::TenMinutes.delay());
    }
}
