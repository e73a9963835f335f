//! Rates at which the overflow topic of ingest is drained: of each key, in cost units.

use crate::admission::lane_charges::cost_units;
use bytes::Bytes;
use unslide_proto::headers;
use unslide_runtime::fairness::{Rate, TokenBuckets};
use unslide_stream::Record;

/// A key that was quiet may drain this many seconds' worth of units at once.
const DRAIN_BURST_SECONDS: f64 = 2.0;

/// The buckets of one lane. All records of a key lie on one partition, so one worker drains them, in their order.
#[derive(Default)]
pub struct DrainRates(TokenBuckets<Bytes>);

impl DrainRates {
    /// Takes the units of a record from the bucket of its key, or returns the microseconds to wait before the next try.
    /// A record without a rate does not wait.
    pub fn take_drained(&self, record: &Record, now: i64) -> Result<(), i64> {
        let told: Option<f64> = record.headers.get_number(headers::DRAIN_RATE);
        let Some(per_second) = told.filter(|rate| rate.is_finite() && *rate > 0.0) else { return Ok(()) };
        let rate = Rate::with_burst(per_second, DRAIN_BURST_SECONDS);
        let units = cost_units(record) as f64;
        self.0.with_bucket(record.key.clone().unwrap_or_default(), rate, now, |bucket| {
            if bucket.try_take(rate, now, units) {
                return Ok(());
            }
            // The wait covers more than one record, since each return to a partition costs a fetch.
            Err(bucket.wait_micros(rate, now, (rate.burst / 2.0).max(units)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_stream::{Headers, RecordRef};

    fn record(key: &'static str, rate: &'static str) -> Record {
        Record {
            at: RecordRef { topic: "unslide.ingest-overflow".into(), partition: 0, offset: 0 },
            time_millis: None,
            key: Some(key.into()),
            value: Some("{}".into()),
            headers: Headers::new().with(headers::DRAIN_RATE, rate),
        }
    }

    #[test]
    fn each_key_is_drained_at_its_own_rate() {
        let rates = DrainRates::default();
        for _ in 0..20 {
            assert_eq!(rates.take_drained(&record("acme/1", "10"), 0), Ok(()));
        }
        assert_eq!(rates.take_drained(&record("acme/1", "10"), 0), Err(1_000_000), "half a burst");
        assert_eq!(rates.take_drained(&record("acme/2", "10"), 0), Ok(()));
        assert_eq!(rates.take_drained(&record("acme/1", "10"), 100_000), Ok(()));
        for wrong in ["", "0", "-1", "NaN", "inf"] {
            assert_eq!(rates.take_drained(&record("acme/1", wrong), 100_000), Ok(()), "{wrong}");
        }
    }
}
