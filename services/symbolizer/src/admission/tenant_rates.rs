//! Rate limits of the tenants in this lane: token buckets by tenant, in cost units. Times are in microseconds
//! of the monotonic clock.
//!
//! A tenant's rate applies across all workers, and no worker asks another. Each applies the share of the rate that matches its
//! share of the partitions that the tenant uses, or of all of the topic while that is not known.

use crate::admission::tenant_partitions::TenantPartitions;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::TenantId;
use unslide_runtime::fairness::{Rate, TokenBuckets};
use unslide_stream::RecordRef;
use unslide_stream::lane::TopicShare;

/// Identifies the records that share a bucket.
#[derive(Clone, PartialEq, Eq, Hash)]
struct BucketKey {
    tenant: TenantId,
    topic: Arc<str>,
    /// Part of the tenant's records, if each part has a bucket of its own.
    part: Option<u8>,
}

/// The buckets of one lane.
pub struct TenantRates {
    burst_seconds: f64,
    buckets: TokenBuckets<BucketKey>,
    /// Share of each topic's partitions that is assigned to this lane.
    parts: Mutex<HashMap<Arc<str>, f64>>,
    partitions: Arc<TenantPartitions>,
}

impl TenantRates {
    /// Creates buckets that hold at most the units of `burst`.
    pub fn new(burst: Duration) -> TenantRates {
        TenantRates {
            burst_seconds: burst.as_secs_f64(),
            buckets: TokenBuckets::default(),
            parts: Mutex::default(),
            partitions: Arc::default(),
        }
    }

    /// Divides the rate of a tenant by the partitions that it uses.
    #[must_use]
    pub fn with_partitions(self, partitions: Arc<TenantPartitions>) -> TenantRates {
        TenantRates { partitions, ..self }
    }

    /// Sets the lane's partitions after they have changed.
    pub fn set_assigned(&self, shares: &[TopicShare]) {
        let part = |s: &TopicShare| {
            let assigned = s.partitions.len();
            assigned as f64 / s.total.max(assigned).max(1) as f64
        };
        self.partitions.set_assigned(shares);
        *self.parts.lock() = shares.iter().map(|s| (Arc::clone(&s.topic), part(s))).collect();
    }

    /// Records that the lane got a record of a tenant.
    pub fn record_use(&self, tenant: &TenantId, at: &RecordRef, now: i64) {
        self.partitions.record_use(tenant, at, now);
    }

    /// Takes `units` for a record of this topic. Returns false if the tenant is over its rate. `per_second`
    /// is its limit over all partitions.
    pub fn take_units(
        &self,
        tenant: &TenantId,
        topic: &Arc<str>,
        per_second: f64,
        now: i64,
        units: u64,
    ) -> bool {
        let (key, rate) = self.topic_bucket(tenant, topic, per_second, now);
        self.buckets.with_bucket(key, rate, now, |bucket| bucket.try_take(rate, now, units as f64))
    }

    /// Charges `more` units for a record of this topic that cost more than was taken.
    pub fn charge_units(&self, tenant: &TenantId, topic: &Arc<str>, per_second: f64, now: i64, more: u64) {
        let (key, rate) = self.topic_bucket(tenant, topic, per_second, now);
        self.buckets.with_bucket(key, rate, now, |bucket| bucket.charge_tokens(rate, now, more as f64));
    }

    /// Takes `units` from the bucket of `part`, or returns the microseconds to wait before the next try. The
    /// wait covers more than one record, since each return to a partition costs a fetch. A part is a topic,
    /// an index and the number of parts. It lies on one partition, so a single worker handles it.
    pub fn take_paced(
        &self,
        tenant: &TenantId,
        part: (&Arc<str>, u8, u8),
        per_second: f64,
        now: i64,
        units: u64,
    ) -> Result<(), i64> {
        let (key, rate) = self.part_bucket(tenant, part, per_second);
        self.buckets.with_bucket(key, rate, now, |bucket| {
            if bucket.try_take(rate, now, units as f64) {
                Ok(())
            } else {
                Err(bucket.wait_micros(rate, now, (rate.burst / 2.0).max(units as f64)))
            }
        })
    }

    /// Charges `more` units for a record of `part` that cost more than was taken.
    pub fn owe_part(
        &self,
        tenant: &TenantId,
        part: (&Arc<str>, u8, u8),
        per_second: f64,
        now: i64,
        more: u64,
    ) {
        let (key, rate) = self.part_bucket(tenant, part, per_second);
        self.buckets.with_bucket(key, rate, now, |bucket| bucket.charge_tokens(rate, now, more as f64));
    }

    /// Returns the bucket and rate of one part of a tenant's records.
    fn part_bucket(
        &self,
        tenant: &TenantId,
        records: (&Arc<str>, u8, u8),
        per_second: f64,
    ) -> (BucketKey, Rate) {
        let (topic, part, of) = records;
        let rate = Rate::with_burst(per_second / f64::from(of.max(1)), self.burst_seconds);
        (BucketKey { tenant: tenant.clone(), topic: Arc::clone(topic), part: Some(part) }, rate)
    }

    /// Returns the bucket and rate of a tenant's records of one topic.
    fn topic_bucket(
        &self,
        tenant: &TenantId,
        topic: &Arc<str>,
        per_second: f64,
        now: i64,
    ) -> (BucketKey, Rate) {
        let of_all = || self.parts.lock().get(topic).copied().unwrap_or(1.0);
        let part = self.partitions.part_of_tenant(tenant, topic, now).unwrap_or_else(of_all);
        let rate = Rate::with_burst(per_second * part, self.burst_seconds);
        (BucketKey { tenant: tenant.clone(), topic: Arc::clone(topic), part: None }, rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::cost;

    fn tenant(slug: &str) -> TenantId {
        TenantId::new(slug).unwrap()
    }

    fn taken(shares: &TenantRates, slug: &str, topic: &Arc<str>, now: i64) -> usize {
        (0..1_000).take_while(|_| shares.take_units(&tenant(slug), topic, 120.0, now, 1)).count()
    }

    fn share(topic: &Arc<str>, assigned: i32) -> TopicShare {
        TopicShare { topic: Arc::clone(topic), partitions: (0..assigned).collect(), total: 12 }
    }

    /// Proves: fairness
    #[test]
    fn workers_together_give_a_tenant_its_rate_whatever_the_others_use() {
        let topic: Arc<str> = "in".into();
        let workers: Vec<TenantRates> = [3, 9]
            .into_iter()
            .map(|assigned| {
                let shares = TenantRates::new(Duration::from_secs(1));
                shares.set_assigned(&[share(&topic, assigned)]);
                shares
            })
            .collect();
        let at = |now| workers.iter().map(|w| taken(w, "acme", &topic, now)).collect::<Vec<_>>();
        assert_eq!(at(0), [30, 90], "the burst of a second");
        assert_eq!(at(1_000_000), [30, 90]);
        assert_eq!(taken(&workers[0], "quiet", &topic, 1_000_000), 30, "another tenant's is its own");
        workers[0].set_assigned(&[share(&topic, 12)]);
        assert_eq!(taken(&workers[0], "acme", &topic, 2_000_000), 120);
    }

    /// Proves: fairness
    #[test]
    fn a_tenant_with_one_app_has_its_rate_in_one_partition_once_a_list_names_it() {
        let topic: Arc<str> = "in".into();
        let partitions = Arc::new(TenantPartitions::default());
        let rates = TenantRates::new(Duration::from_secs(1)).with_partitions(Arc::clone(&partitions));
        rates.set_assigned(&[share(&topic, 3)]);
        let at = RecordRef { topic: Arc::clone(&topic), partition: 2, offset: 0 };
        rates.record_use(&tenant("acme"), &at, 0);
        assert_eq!(taken(&rates, "acme", &topic, 0), 30, "a quarter of all partitions");
        partitions.record_list("in", 2, &["acme".to_owned()], 0, 0);
        assert_eq!(taken(&rates, "acme", &topic, 1_000_000), 120);
        assert_eq!(taken(&rates, "new", &topic, 1_000_000), 30);
        // Another worker's partition has the tenant's next app.
        partitions.record_list("in", 7, &["acme".to_owned()], 1_000_000, 1_000_000);
        assert_eq!(taken(&rates, "acme", &topic, 2_000_000), 60);
    }

    #[test]
    fn an_array_costs_as_much_as_its_reports() {
        let (shares, topic): (_, Arc<str>) = (TenantRates::new(Duration::from_secs(1)), "in".into());
        assert!(shares.take_units(&tenant("acme"), &topic, 120.0, 0, 1));
        shares.charge_units(&tenant("acme"), &topic, 120.0, 0, 99);
        assert_eq!(taken(&shares, "acme", &topic, 0), 20);
    }

    #[test]
    fn a_large_record_costs_its_bytes_wherever_it_is_taken() {
        let (shares, topic): (_, Arc<str>) = (TenantRates::new(Duration::from_secs(1)), "in".into());
        let large = cost::units_for_record(5 << 20);
        assert!(shares.take_units(&tenant("acme"), &topic, 120.0, 0, large));
        assert_eq!(taken(&shares, "acme", &topic, 0), 39);
        assert_eq!(shares.take_paced(&tenant("acme"), (&topic, 0, 2), 120.0, 0, large), Ok(()));
        // Half the rate has a burst of 60, and 21 more are owed.
        assert_eq!(shares.take_paced(&tenant("acme"), (&topic, 0, 2), 120.0, 0, 1), Err(850_000));
    }

    #[test]
    fn a_paced_part_has_its_share_of_the_rate_and_is_asked_again_for_more_than_one_record() {
        let (shares, topic): (_, Arc<str>) = (TenantRates::new(Duration::from_secs(1)), "over".into());
        let pace = |part, now| shares.take_paced(&tenant("acme"), (&topic, part, 2), 120.0, now, 1);
        let mut passed = 0;
        let wait = loop {
            match pace(0, 0) {
                Ok(()) => passed += 1,
                Err(wait) => break wait,
            }
        };
        assert_eq!((passed, wait), (60, 500_000));
        assert_eq!(pace(1, 0), Ok(()), "the other part has its own");
        let later = (0..100).take_while(|_| pace(0, wait).is_ok()).count();
        assert_eq!(later, 30);
        shares.owe_part(&tenant("acme"), (&topic, 0, 2), 120.0, wait, 600);
        assert_eq!(pace(0, wait), Err(10_500_000), "an array costs its own part");
        assert_eq!(pace(1, wait), Ok(()));
    }
}
