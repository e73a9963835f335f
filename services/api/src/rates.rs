//! Reports a second of each tenant: a token bucket in this process for each that sends.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use time::OffsetDateTime;
use unslide_model::TenantId;

/// Seconds' worth of reports that may come at once after a pause.
const BURST_SECONDS: f64 = 5.0;
/// Tenants that are kept before those whose buckets are full again are dropped.
const MOST: usize = 10_000;

/// The buckets.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<TenantId, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Below 0 after a batch that was larger than the bucket: the next one waits the longer.
    tokens: f64,
    at: OffsetDateTime,
}

impl Bucket {
    fn refilled(self, rate: f64, now: OffsetDateTime) -> Bucket {
        // A clock that goes back gives nothing.
        let passed = (now - self.at).as_seconds_f64().max(0.0);
        Bucket { tokens: passed.mul_add(rate, self.tokens).min(rate * BURST_SECONDS), at: now }
    }
}

impl Rates {
    /// Takes `reports` of a tenant that may send `rate` (more than 0) a second. A batch that is larger
    /// than the bucket is let in when the bucket is full, and counts in full.
    ///
    /// # Errors
    /// The seconds after which the same batch fits, at least 1; nothing was taken.
    pub fn take(&self, tenant: &TenantId, rate: f64, reports: usize, now: OffsetDateTime) -> Result<(), u32> {
        let full = rate * BURST_SECONDS;
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST && !buckets.contains_key(tenant) {
            buckets.retain(|_, bucket| (now - bucket.at).as_seconds_f64() < BURST_SECONDS);
        }
        let bucket = buckets.entry(tenant.clone()).or_insert(Bucket { tokens: full, at: now });
        *bucket = bucket.refilled(rate, now);
        #[expect(clippy::cast_precision_loss, reason = "a body has far fewer reports than 2^52")]
        let wanted = reports as f64;
        // What the bucket can never hold is let in when it is full.
        let needed = wanted.min(full);
        if bucket.tokens + 1e-9 < needed {
            let seconds = ((needed - bucket.tokens) / rate).ceil().clamp(1.0, 3_600.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped above")]
            return Err(seconds as u32);
        }
        bucket.tokens -= wanted;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::Duration;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    #[test]
    fn a_tenant_sends_its_rate_and_not_more_and_no_other_pays_for_it() {
        let (rates, start) = (Rates::default(), OffsetDateTime::UNIX_EPOCH);
        let at = |millis| start + Duration::milliseconds(millis);
        let acme = tenant("acme");
        assert_eq!(rates.take(&acme, 10.0, 50, at(0)), Ok(()));
        assert_eq!(rates.take(&acme, 10.0, 1, at(0)), Err(1));
        assert_eq!(rates.take(&acme, 10.0, 30, at(0)), Err(3), "a batch waits for all of it");
        assert_eq!(rates.take(&tenant("umbrella"), 10.0, 50, at(0)), Ok(()));
        // Over ten seconds it gets its rate, however often it tries.
        let sent = (1..=1_000).filter(|n| rates.take(&acme, 10.0, 1, at(n * 10)).is_ok()).count();
        assert_eq!(sent, 100);
        // A clock that goes back gives nothing.
        assert_eq!(rates.take(&acme, 10.0, 1, at(0)), Err(1));
    }

    #[test]
    fn a_batch_larger_than_the_bucket_goes_through_and_is_paid_for() {
        let (rates, start) = (Rates::default(), OffsetDateTime::UNIX_EPOCH);
        let acme = tenant("acme");
        assert_eq!(rates.take(&acme, 2.0, 30, start), Ok(()));
        assert_eq!(rates.take(&acme, 2.0, 1, start), Err(11));
        assert_eq!(rates.take(&acme, 2.0, 1, start + Duration::seconds(11)), Ok(()));
    }

    #[test]
    fn the_map_of_tenants_is_bounded_by_those_who_send() {
        let (rates, start) = (Rates::default(), OffsetDateTime::UNIX_EPOCH);
        for n in 0..MOST {
            rates.take(&tenant(&format!("t{n}")), 1.0, 1, start).unwrap();
        }
        rates.take(&tenant("late"), 1.0, 1, start + Duration::MINUTE).unwrap();
        assert_eq!(rates.0.lock().unwrap().len(), 1);
    }
}
