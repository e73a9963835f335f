//! Partitions that had records of a tenant lately: those of this lane, and those that lists of all workers name.
//!
//! The rate of a tenant is divided by them, so that a tenant with one app has its whole rate in the one partition of that
//! app. Times are in microseconds of the monotonic clock.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_stream::RecordRef;
use unslide_stream::lane::TopicShare;

/// Age from which a use does not count.
const USE_AGE_MICROS: i64 = 900_000_000;
/// Interval at which old uses are forgotten.
const FORGET_INTERVAL_MICROS: i64 = 60_000_000;
/// The most tenants of a list. With the longest slugs they take 84 KB. A tenant in no list has its rate divided by all
/// partitions.
const MAX_LISTED: usize = 2_000;

/// Last uses of one partition by one tenant.
#[derive(Clone, Copy, Debug, Default)]
struct LastUse {
    /// By a record of this lane.
    own: Option<i64>,
    /// By the list of any worker.
    listed: Option<i64>,
}

impl LastUse {
    fn is_listed(self, now: i64) -> bool {
        is_recent(self.listed, now)
    }

    fn is_own(self, now: i64) -> bool {
        is_recent(self.own, now)
    }
}

fn is_recent(at: Option<i64>, now: i64) -> bool {
    at.is_some_and(|at| now.saturating_sub(at) <= USE_AGE_MICROS)
}

/// Uses of one topic.
#[derive(Debug, Default)]
struct TopicUses {
    tenants: HashMap<TenantId, BTreeMap<i32, LastUse>>,
    /// Partitions that are assigned to this lane.
    assigned: BTreeSet<i32>,
}

#[derive(Debug, Default)]
struct Uses {
    topics: HashMap<Arc<str>, TopicUses>,
    forgotten_at: i64,
}

/// The uses of input partitions by tenants.
#[derive(Debug, Default)]
pub struct TenantPartitions(Mutex<Uses>);

impl TenantPartitions {
    /// Sets the lane's partitions after they have changed.
    pub fn set_assigned(&self, shares: &[TopicShare]) {
        let mut uses = self.0.lock();
        uses.topics.values_mut().for_each(|topic| topic.assigned.clear());
        for share in shares {
            uses.topics.entry(Arc::clone(&share.topic)).or_default().assigned = share.partitions.clone();
        }
    }

    /// Records that the lane got a record of a tenant.
    pub fn record_use(&self, tenant: &TenantId, at: &RecordRef, now: i64) {
        let mut uses = self.0.lock();
        let Some(topic) = uses.topics.get_mut(&at.topic) else { return };
        if let Some(last) = topic.tenants.get_mut(tenant).and_then(|places| places.get_mut(&at.partition)) {
            last.own = Some(now);
        } else {
            let places = topic.tenants.entry(tenant.clone()).or_default();
            places.insert(at.partition, LastUse { own: Some(now), listed: None });
        }
    }

    /// Records the list that a worker wrote at `written` about a partition.
    pub fn record_list(&self, topic: &str, partition: i32, tenants: &[String], written: i64, now: i64) {
        let mut uses = self.0.lock();
        if !is_recent(Some(written), now) {
            return;
        }
        if !uses.topics.contains_key(topic) {
            uses.topics.insert(topic.into(), TopicUses::default());
        }
        let Some(topic) = uses.topics.get_mut(topic) else { return };
        for tenant in tenants.iter().take(MAX_LISTED).filter_map(|slug| TenantId::new(slug).ok()) {
            let last = topic.tenants.entry(tenant).or_default().entry(partition).or_default();
            last.listed = last.listed.max(Some(written));
        }
        uses.forget_old(now);
    }

    /// Returns the tenants of the records that a partition of this lane had, the last first.
    pub fn list_tenants(&self, topic: &str, partition: i32, now: i64) -> Vec<TenantId> {
        let uses = self.0.lock();
        let Some(topic) = uses.topics.get(topic) else { return Vec::new() };
        let own = topic.tenants.iter().filter_map(|(tenant, places)| {
            let last = places.get(&partition).filter(|last| last.is_own(now))?;
            Some((last.own, tenant))
        });
        let mut newest: Vec<(Option<i64>, &TenantId)> = own.collect();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        newest.into_iter().take(MAX_LISTED).map(|(_, tenant)| tenant.clone()).collect()
    }

    /// Returns the part of a tenant's partitions that this lane has, or `None` for a tenant that no list names.
    pub fn part_of_tenant(&self, tenant: &TenantId, topic: &str, now: i64) -> Option<f64> {
        let uses = self.0.lock();
        let topic = uses.topics.get(topic)?;
        let places = topic.tenants.get(tenant)?;
        let (mut own, mut all, mut is_listed) = (0_u32, 0_u32, false);
        for (partition, last) in places {
            if last.is_listed(now) || last.is_own(now) {
                all += 1;
                own += u32::from(topic.assigned.contains(partition));
                is_listed |= last.is_listed(now);
            }
        }
        (is_listed && own > 0).then(|| f64::from(own) / f64::from(all))
    }
}

impl Uses {
    fn forget_old(&mut self, now: i64) {
        if now.saturating_sub(self.forgotten_at) < FORGET_INTERVAL_MICROS {
            return;
        }
        self.forgotten_at = now;
        for topic in self.topics.values_mut() {
            topic.tenants.retain(|_, places| {
                places.retain(|_, last| last.is_listed(now) || last.is_own(now));
                !places.is_empty()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    /// Workers with three partitions each of twelve.
    struct Workers {
        topic: Arc<str>,
        all: Vec<TenantPartitions>,
    }

    impl Workers {
        fn new() -> Workers {
            let topic: Arc<str> = "in".into();
            let all = (0..4).map(|_| TenantPartitions::default()).collect();
            let workers = Workers { topic, all };
            for number in 0..4 {
                workers.assign(number, (number * 3..number * 3 + 3).collect());
            }
            workers
        }

        fn assign(&self, worker: i32, partitions: BTreeSet<i32>) {
            let share = TopicShare { topic: Arc::clone(&self.topic), partitions, total: 12 };
            self.all[usize::try_from(worker).unwrap()].set_assigned(&[share]);
        }

        /// Records of a tenant come in these partitions.
        fn send(&self, tenant: &str, partitions: &[i32], now: i64) {
            for partition in partitions {
                let at = RecordRef { topic: Arc::clone(&self.topic), partition: *partition, offset: 0 };
                let worker = self.all.iter().find(|w| w.0.lock().topics["in"].assigned.contains(partition));
                worker.unwrap().record_use(&TenantId::new(tenant).unwrap(), &at, now);
            }
        }

        /// Each worker writes its lists, and all read them.
        fn write_lists(&self, now: i64) {
            for writer in &self.all {
                let assigned = writer.0.lock().topics["in"].assigned.clone();
                for partition in assigned {
                    let tenants = writer.list_tenants("in", partition, now);
                    let tenants: Vec<String> = tenants.iter().map(TenantId::to_string).collect();
                    self.all
                        .iter()
                        .for_each(|reader| reader.record_list("in", partition, &tenants, now, now));
                }
            }
        }

        fn parts(&self, tenant: &str, now: i64) -> Vec<Option<f64>> {
            let tenant = TenantId::new(tenant).unwrap();
            self.all.iter().map(|worker| worker.part_of_tenant(&tenant, "in", now)).collect()
        }
    }

    #[test]
    fn an_app_in_one_partition_has_the_whole_rate_and_ten_apps_in_four_share_it() {
        let workers = Workers::new();
        workers.send("one", &[4], 0);
        // Ten apps, of which several are in one partition.
        workers.send("ten", &[0, 1, 4, 11, 4, 0, 1, 11, 0, 4], 0);
        assert_eq!(workers.parts("one", 0), [None; 4], "a new tenant is in no list");
        workers.write_lists(MINUTE);
        assert_eq!(workers.parts("one", MINUTE), [None, Some(1.0), None, None]);
        assert_eq!(workers.parts("ten", MINUTE), [Some(0.5), Some(0.25), None, Some(0.25)]);
    }

    #[test]
    fn a_tenant_that_moves_has_too_large_a_part_until_the_next_list_only() {
        let workers = Workers::new();
        workers.send("acme", &[0], 0);
        workers.write_lists(0);
        workers.send("acme", &[9], MINUTE);
        assert_eq!(workers.parts("acme", MINUTE), [Some(1.0), None, None, Some(0.5)]);
        workers.write_lists(MINUTE);
        assert_eq!(workers.parts("acme", MINUTE), [Some(0.5), None, None, Some(0.5)]);
        // The partition that it left does not count for longer than a quarter of an hour after its last record and list.
        for minute in 2..40 {
            workers.send("acme", &[9], minute * MINUTE);
            workers.write_lists(minute * MINUTE);
        }
        assert_eq!(workers.parts("acme", 40 * MINUTE), [None, None, None, Some(1.0)]);
        assert_eq!(
            workers.all[0].0.lock().topics["in"].tenants.values().map(BTreeMap::len).sum::<usize>(),
            1
        );
    }

    #[test]
    fn a_worker_that_takes_a_partition_over_knows_its_tenants_from_the_list() {
        let workers = Workers::new();
        workers.send("acme", &[0, 3], 0);
        workers.write_lists(0);
        workers.assign(0, BTreeSet::from([1, 2]));
        workers.assign(1, BTreeSet::from([0, 3, 4, 5]));
        assert_eq!(workers.parts("acme", 0), [None, Some(1.0), None, None]);
        // No list is new enough: the division by all partitions counts.
        workers.send("acme", &[3], 16 * MINUTE);
        assert_eq!(workers.parts("acme", 16 * MINUTE), [None; 4]);
    }

    #[test]
    fn an_old_list_and_names_that_are_no_tenants_count_for_nothing() {
        let partitions = TenantPartitions::default();
        let share = TopicShare { topic: "in".into(), partitions: BTreeSet::from([0]), total: 2 };
        partitions.set_assigned(&[share]);
        partitions.record_list("in", 0, &["acme".to_owned()], 0, 16 * MINUTE);
        partitions.record_list("in", 0, &["A tenant?".to_owned()], 16 * MINUTE, 16 * MINUTE);
        assert!(partitions.0.lock().topics["in"].tenants.is_empty());
    }
}
