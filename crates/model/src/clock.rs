//! The clock as a value, so that time is an input and tests own it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use time::OffsetDateTime;

/// Where the time comes from. Times are UTC with microseconds.
pub trait Clock: Send + Sync + 'static {
    /// The present moment in UTC.
    fn now(&self) -> OffsetDateTime;

    /// The present moment as microseconds since the Unix epoch.
    fn now_micros(&self) -> i64 {
        i64::try_from(self.now().unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> OffsetDateTime {
        (**self).now()
    }
}

/// The operating system's clock, for the binary's composition only.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the real clock is read")]
    fn now(&self) -> OffsetDateTime {
        let now = OffsetDateTime::now_utc();
        now.replace_microsecond(now.microsecond()).unwrap_or(now)
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// A clock that shows `micros` microseconds since the Unix epoch.
    #[must_use]
    pub fn at_micros(micros: i64) -> FixedClock {
        FixedClock(AtomicI64::new(micros))
    }

    /// Moves the clock forward by `micros` microseconds.
    pub fn advance_micros(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0.load(Ordering::SeqCst)) * 1_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}
