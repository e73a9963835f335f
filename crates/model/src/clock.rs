//! The clock as a value, so that time is an input and tests own it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use time::OffsetDateTime;

/// Source of the time, in UTC with microseconds.
///
/// Use the wall clock for times that people and other processes read: operators and time servers set it forward
/// and back. Use the monotonic clock for durations, deadlines and ages.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time in UTC, by the wall clock.
    fn now(&self) -> OffsetDateTime;

    /// Returns the time since a fixed moment of this process. It never goes back, and nothing sets it.
    fn monotonic_time(&self) -> Duration;

    /// Returns the current time by the wall clock, as microseconds since the Unix epoch.
    fn now_micros(&self) -> i64 {
        i64::try_from(self.now().unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
    }

    /// Returns [`Clock::monotonic_time`] in microseconds.
    fn monotonic_micros(&self) -> i64 {
        i64::try_from(self.monotonic_time().as_micros()).unwrap_or(i64::MAX)
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> OffsetDateTime {
        (**self).now()
    }

    fn monotonic_time(&self) -> Duration {
        (**self).monotonic_time()
    }
}

/// The operating system's clock. Only a binary's start-up code creates one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Zero of this process's monotonic clock.
#[expect(clippy::disallowed_methods, reason = "the one place where the real clock is read")]
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the real clock is read")]
    fn now(&self) -> OffsetDateTime {
        let now = OffsetDateTime::now_utc();
        now.replace_microsecond(now.microsecond()).unwrap_or(now)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where the real clock is read")]
    fn monotonic_time(&self) -> Duration {
        START.elapsed()
    }
}

/// A clock that stands still until a caller moves it.
#[derive(Debug)]
pub struct FixedClock {
    wall: AtomicI64,
    monotonic: AtomicI64,
}

impl FixedClock {
    /// Creates a clock that shows `micros` microseconds since the Unix epoch.
    #[must_use]
    pub fn at_micros(micros: i64) -> FixedClock {
        FixedClock { wall: AtomicI64::new(micros), monotonic: AtomicI64::new(0) }
    }

    /// Moves both clocks forward by `micros` microseconds.
    pub fn advance_micros(&self, micros: i64) {
        self.wall.fetch_add(micros, Ordering::SeqCst);
        self.monotonic.fetch_add(micros, Ordering::SeqCst);
    }

    /// Sets the wall clock forward or back by `micros` microseconds. The monotonic clock does not move.
    pub fn step_wall_micros(&self, micros: i64) {
        self.wall.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.wall.load(Ordering::SeqCst)) * 1_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    fn monotonic_time(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.monotonic.load(Ordering::SeqCst)).unwrap_or(0))
    }
}
