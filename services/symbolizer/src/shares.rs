//! What each tenant may use of this lane: token buckets by tenant.
//!
//! A tenant's rate holds over all workers without any of them asking another: each has the part of it
//! that its partitions are of all partitions.

use crate::bucket::{Bucket, Rate};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::TenantId;
use unslide_stream::lane::TopicShare;

/// Buckets beyond this are looked through for full ones, which say nothing.
const MANY: usize = 10_000;

/// What a bucket is for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    tenant: TenantId,
    topic: Arc<str>,
    /// Which part of the tenant's records, where each part has a bucket of its own.
    part: Option<u8>,
}

#[derive(Default)]
struct State {
    buckets: HashMap<Place, (Bucket, Rate)>,
    /// The part of each topic's partitions that is this lane's.
    parts: HashMap<Arc<str>, f64>,
}

/// The buckets of one lane.
pub struct Shares {
    burst_seconds: f64,
    state: Mutex<State>,
}

impl Shares {
    /// Buckets that save up what comes in `burst`.
    pub fn new(burst: Duration) -> Shares {
        Shares { burst_seconds: burst.as_secs_f64(), state: Mutex::default() }
    }

    /// The lane's partitions have changed.
    pub fn assigned(&self, shares: &[TopicShare]) {
        let part = |s: &TopicShare| s.assigned as f64 / s.total.max(s.assigned).max(1) as f64;
        self.state.lock().parts = shares.iter().map(|s| (Arc::clone(&s.topic), part(s))).collect();
    }

    /// True where the tenant may have one more record of this topic processed; `per_second` is its
    /// limit over all partitions.
    pub fn take(&self, tenant: &TenantId, topic: &Arc<str>, per_second: f64, now: i64) -> bool {
        self.with_share(tenant, topic, per_second, now, |bucket, rate| bucket.take(rate, now))
    }

    /// A record of this topic turned out to hold `more` reports beside the first.
    pub fn owe(&self, tenant: &TenantId, topic: &Arc<str>, per_second: f64, now: i64, more: usize) {
        self.with_share(tenant, topic, per_second, now, |bucket, rate| bucket.owe(rate, now, more as f64));
    }

    /// Takes a token of `part`, one of `of` parts of the tenant's records, or says in how many
    /// microseconds it is worth asking again: not for each single record, since coming back to a
    /// partition costs a fetch. A part lies on one partition, so it is one worker's as a whole.
    pub fn pace(
        &self,
        tenant: &TenantId,
        part: (&Arc<str>, u8, u8),
        per_second: f64,
        now: i64,
    ) -> Result<(), i64> {
        let (place, rate) = self.part(tenant, part, per_second);
        self.with(place, rate, now, |bucket, rate| {
            if bucket.take(rate, now) {
                Ok(())
            } else {
                Err(bucket.wait(rate, now, (rate.burst / 2.0).max(1.0)))
            }
        })
    }

    /// A record of `part` that was let through turned out to hold `more` reports beside the first.
    pub fn owe_part(
        &self,
        tenant: &TenantId,
        part: (&Arc<str>, u8, u8),
        per_second: f64,
        now: i64,
        more: usize,
    ) {
        let (place, rate) = self.part(tenant, part, per_second);
        self.with(place, rate, now, |bucket, rate| bucket.owe(rate, now, more as f64));
    }

    /// The bucket of one part of a tenant's records.
    fn part(
        &self,
        tenant: &TenantId,
        (topic, part, of): (&Arc<str>, u8, u8),
        per_second: f64,
    ) -> (Place, Rate) {
        let rate = Rate::with_burst(per_second / f64::from(of.max(1)), self.burst_seconds);
        (Place { tenant: tenant.clone(), topic: Arc::clone(topic), part: Some(part) }, rate)
    }

    /// How many buckets there are.
    pub fn len(&self) -> usize {
        self.state.lock().buckets.len()
    }

    fn with_share<T>(
        &self,
        tenant: &TenantId,
        topic: &Arc<str>,
        per_second: f64,
        now: i64,
        with: impl FnOnce(&mut Bucket, Rate) -> T,
    ) -> T {
        let part = self.state.lock().parts.get(topic).copied().unwrap_or(1.0);
        let place = Place { tenant: tenant.clone(), topic: Arc::clone(topic), part: None };
        self.with(place, Rate::with_burst(per_second * part, self.burst_seconds), now, with)
    }

    fn with<T>(&self, place: Place, rate: Rate, now: i64, with: impl FnOnce(&mut Bucket, Rate) -> T) -> T {
        let mut state = self.state.lock();
        if state.buckets.len() >= MANY && !state.buckets.contains_key(&place) {
            state.buckets.retain(|_, (bucket, rate)| !bucket.is_full(*rate, now));
        }
        let (bucket, last) = state.buckets.entry(place).or_insert_with(|| (Bucket::full(rate, now), rate));
        *last = rate;
        with(bucket, rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(slug: &str) -> TenantId {
        TenantId::new(slug).unwrap()
    }

    fn taken(shares: &Shares, slug: &str, topic: &Arc<str>, now: i64) -> usize {
        (0..1_000).take_while(|_| shares.take(&tenant(slug), topic, 120.0, now)).count()
    }

    #[test]
    fn workers_together_give_a_tenant_its_rate_whatever_the_others_use() {
        let topic: Arc<str> = "in".into();
        let workers: Vec<Shares> = [3, 9]
            .into_iter()
            .map(|assigned| {
                let shares = Shares::new(Duration::from_secs(1));
                shares.assigned(&[TopicShare { topic: Arc::clone(&topic), assigned, total: 12 }]);
                shares
            })
            .collect();
        let at = |now| workers.iter().map(|w| taken(w, "acme", &topic, now)).collect::<Vec<_>>();
        assert_eq!(at(0), [30, 90], "the burst of a second");
        assert_eq!(at(1_000_000), [30, 90]);
        assert_eq!(taken(&workers[0], "quiet", &topic, 1_000_000), 30, "another tenant's is its own");
        workers[0].assigned(&[TopicShare { topic: Arc::clone(&topic), assigned: 12, total: 12 }]);
        assert_eq!(taken(&workers[0], "acme", &topic, 2_000_000), 120);
    }

    #[test]
    fn an_array_costs_as_much_as_its_reports() {
        let (shares, topic): (_, Arc<str>) = (Shares::new(Duration::from_secs(1)), "in".into());
        assert!(shares.take(&tenant("acme"), &topic, 120.0, 0));
        shares.owe(&tenant("acme"), &topic, 120.0, 0, 99);
        assert_eq!(taken(&shares, "acme", &topic, 0), 20);
    }

    #[test]
    fn a_paced_part_has_its_share_of_the_rate_and_is_asked_again_for_more_than_one_record() {
        let (shares, topic): (_, Arc<str>) = (Shares::new(Duration::from_secs(1)), "over".into());
        let pace = |part, now| shares.pace(&tenant("acme"), (&topic, part, 2), 120.0, now);
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

    #[test]
    fn full_buckets_are_let_go_of_when_there_are_many() {
        let (shares, topic): (_, Arc<str>) = (Shares::new(Duration::from_secs(1)), "in".into());
        for n in 0..MANY {
            shares.take(&tenant(&format!("t-{n}")), &topic, 1.0, 0);
        }
        assert_eq!(shares.len(), MANY);
        shares.take(&tenant("late"), &topic, 1.0, 2_000_000);
        assert_eq!(shares.len(), 1);
    }
}
