//! The database's time: the clock that all hosts share.

use parking_lot::Mutex;
use sqlx::postgres::PgConnection;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use unslide_model::Clock;

/// How long time is counted on from an answer of the database.
const SAMPLE_MAX_AGE: Duration = Duration::from_secs(60);

/// A time that the database answered, and when it answered.
#[derive(Clone, Copy)]
struct TimeSample {
    time: OffsetDateTime,
    /// By the monotonic clock.
    at: Duration,
    round_trip: Duration,
}

/// The database's time. Each new connection asks for it, and one that is used after a minute without an answer;
/// in between it is counted on by the monotonic clock. It is late by a round trip at most, never early, and a host's
/// wall clock has no part in it.
pub(super) struct DatabaseClock {
    host: Arc<dyn Clock>,
    sample: Mutex<TimeSample>,
}

impl DatabaseClock {
    /// Makes a clock that shows the host's time until the database has answered.
    pub(super) fn new(host: Arc<dyn Clock>) -> DatabaseClock {
        let sample = TimeSample { time: host.now(), at: host.monotonic_time(), round_trip: Duration::MAX };
        DatabaseClock { host, sample: Mutex::new(sample) }
    }

    /// Returns true if the database must be asked for the time again.
    pub(super) fn is_old(&self) -> bool {
        self.is_outdated(&self.sample.lock())
    }

    fn is_outdated(&self, sample: &TimeSample) -> bool {
        self.host.monotonic_time().saturating_sub(sample.at) >= SAMPLE_MAX_AGE
    }

    /// Asks the database.
    pub(super) async fn query_time(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let asked = self.host.monotonic_time();
        let time = sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(connection).await?;
        self.record_sample(asked, time);
        Ok(())
    }

    /// Takes over the answer to a request made at `asked`, unless the present sample had a shorter round trip
    /// and is not old.
    pub(super) fn record_sample(&self, asked: Duration, time: OffsetDateTime) {
        let at = self.host.monotonic_time();
        let new = TimeSample { time, at, round_trip: at.saturating_sub(asked) };
        let mut sample = self.sample.lock();
        if new.round_trip <= sample.round_trip || self.is_outdated(&sample) {
            *sample = new;
        }
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> OffsetDateTime {
        let sample = *self.sample.lock();
        let now = sample.time + self.host.monotonic_time().saturating_sub(sample.at);
        now.replace_microsecond(now.microsecond()).unwrap_or(now)
    }

    fn monotonic_time(&self) -> Duration {
        self.host.monotonic_time()
    }
}
