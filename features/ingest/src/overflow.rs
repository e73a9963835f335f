//! The overflow topic of ingest: reports and summaries over a rate wait there and are drained at the rate of their key.
//!
//! Each process of the api counts the bytes of a tenant that it sent there and that no symbolizer has taken yet.

use crate::key::CallerKey;
use crate::limits::KEY_REPORTS_PER_SECOND;
use parking_lot::Mutex;
use prometheus::IntGauge;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use unslide_api::feature::Broker;
use unslide_model::TenantId;
use unslide_proto::{headers, lanes};
use unslide_stream::{Delivered, OutRecord, StreamError, read_group_offsets};

/// Interval at which the offsets of the symbolizers are read while records of this process wait.
pub const DRAINED_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Bytes that are released together, so that few entries are kept in memory.
const ENTRY_BYTES: u64 = 1 << 20;

/// Records of one partition that wait.
#[derive(Debug)]
struct WaitingRecords {
    last_offset: i64,
    bytes: u64,
}

/// Bytes of one tenant that are on their way to overflow or wait there.
#[derive(Debug, Default)]
struct TenantBytes {
    /// On their way to the broker, and waiting.
    bytes: u64,
    /// By partition, in the order of the offsets.
    waiting: BTreeMap<i32, VecDeque<WaitingRecords>>,
}

/// The bytes of each tenant that wait in overflow, with their limit.
#[derive(Debug)]
pub struct OverflowBytes {
    limit: u64,
    tenants: Mutex<HashMap<TenantId, TenantBytes>>,
}

impl OverflowBytes {
    /// Creates the counts with a limit for each tenant.
    pub fn new(limit: u64) -> OverflowBytes {
        OverflowBytes { limit, tenants: Mutex::default() }
    }

    /// Returns true if a tenant has used up its limit.
    pub fn is_full(&self, tenant: &TenantId) -> bool {
        self.tenants.lock().get(tenant).map_or(0, |held| held.bytes) >= self.limit
    }

    /// Reserves bytes of a tenant, or returns None if they are more than its limit leaves.
    pub fn try_reserve(&self, tenant: &TenantId, bytes: u64) -> Option<OverflowReservation<'_>> {
        let mut tenants = self.tenants.lock();
        let held = tenants.get(tenant).map_or(0, |held| held.bytes);
        if held.saturating_add(bytes) > self.limit {
            return None;
        }
        tenants.entry(tenant.clone()).or_default().bytes += bytes;
        Some(OverflowReservation { all: self, tenant: tenant.clone(), bytes })
    }

    /// Returns the partitions with records that wait.
    fn list_partitions(&self) -> Vec<i32> {
        let tenants = self.tenants.lock();
        let all: BTreeSet<i32> = tenants.values().flat_map(|held| held.waiting.keys().copied()).collect();
        all.into_iter().collect()
    }

    /// Releases the records below the offsets that symbolizers have committed. Returns the bytes that are left.
    fn release_drained(&self, committed: &BTreeMap<i32, i64>) -> u64 {
        let mut tenants = self.tenants.lock();
        tenants.retain(|_, held| {
            for (partition, entries) in &mut held.waiting {
                let Some(next) = committed.get(partition) else { continue };
                while let Some(entry) = entries.front().filter(|entry| entry.last_offset < *next) {
                    held.bytes = held.bytes.saturating_sub(entry.bytes);
                    entries.pop_front();
                }
            }
            held.waiting.retain(|_, entries| !entries.is_empty());
            held.bytes > 0
        });
        tenants.values().map(|held| held.bytes).sum()
    }

    /// Releases the records that symbolizers have taken, and sets the metric.
    pub async fn check_drained(&self, broker: &Broker, gauge: &IntGauge) {
        let partitions = self.list_partitions();
        let committed = if partitions.is_empty() {
            Ok(BTreeMap::new())
        } else {
            let group = lanes::consumer_group(&broker.settings.topic_prefix, lanes::RETRY);
            read_group_offsets(&broker.settings, group, broker.topics.ingest_overflow.clone(), partitions)
                .await
        };
        match committed {
            Ok(committed) => gauge.set(i64::try_from(self.release_drained(&committed)).unwrap_or(i64::MAX)),
            Err(error) => log_failed_check(&error),
        }
    }
}

fn log_failed_check(error: &StreamError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "the symbolizers' offsets in the overflow topic of ingest could not be read");
}

/// Bytes on their way to the overflow topic. Dropped, it releases those that were not sent.
pub struct OverflowReservation<'o> {
    all: &'o OverflowBytes,
    tenant: TenantId,
    bytes: u64,
}

impl OverflowReservation<'_> {
    /// Keeps the bytes of records that the broker has until a symbolizer takes them.
    pub fn keep_sent(mut self, sent: impl IntoIterator<Item = (Delivered, u64)>) {
        let mut tenants = self.all.tenants.lock();
        let held = tenants.entry(self.tenant.clone()).or_default();
        for (at, bytes) in sent {
            self.bytes = self.bytes.saturating_sub(bytes);
            let entries = held.waiting.entry(at.partition).or_default();
            match entries.back_mut().filter(|entry| entry.bytes < ENTRY_BYTES) {
                Some(entry) => {
                    entry.bytes += bytes;
                    entry.last_offset = entry.last_offset.max(at.offset);
                }
                None => entries.push_back(WaitingRecords { last_offset: at.offset, bytes }),
            }
        }
    }
}

impl Drop for OverflowReservation<'_> {
    fn drop(&mut self) {
        let mut tenants = self.all.tenants.lock();
        if let Some(held) = tenants.get_mut(&self.tenant) {
            held.bytes = held.bytes.saturating_sub(self.bytes);
        }
    }
}

/// Returns a record for the overflow topic, from one for the topic of reports or of sessions.
pub fn to_overflow_record(broker: &Broker, key: &CallerKey, record: OutRecord) -> OutRecord {
    let OutRecord { topic, key: inner, value, mut headers } = record;
    headers.push(headers::DRAIN_RATE, format!("{KEY_REPORTS_PER_SECOND}"));
    if *topic == *broker.topics.sessions {
        headers.push(headers::DRAIN_TOPIC, topic.to_string());
        inner.into_iter().for_each(|inner| headers.push(headers::DRAIN_KEY, inner));
    }
    // All records of a key are in one partition, so that they are drained in their order.
    let outer = format!("{}/{}", key.tenant, key.prefix).into();
    OutRecord { topic: broker.topics.ingest_overflow.as_str().into(), key: Some(outer), value, headers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_limit_until_its_records_are_taken() {
        let all = OverflowBytes::new(100);
        let [acme, other] = ["acme", "other"].map(|slug| TenantId::new(slug).unwrap());
        let at = |partition, offset| Delivered { partition, offset };
        all.try_reserve(&acme, 60).unwrap().keep_sent([(at(0, 7), 40), (at(1, 3), 20)]);
        drop(all.try_reserve(&acme, 40).unwrap());
        assert!(all.try_reserve(&acme, 41).is_none() && !all.is_full(&acme));
        all.try_reserve(&acme, 40).unwrap().keep_sent([(at(0, 8), 40)]);
        assert!(all.is_full(&acme) && !all.is_full(&other));
        all.try_reserve(&other, 100).unwrap().keep_sent([(at(1, 4), 100)]);
        assert_eq!(all.list_partitions(), [0, 1]);
        // Records are released together with those behind them in the same entry.
        assert_eq!(all.release_drained(&BTreeMap::from([(0, 8), (1, 4)])), 180);
        assert_eq!(all.release_drained(&BTreeMap::from([(0, 9)])), 100);
        assert!(!all.is_full(&acme) && all.is_full(&other));
        assert_eq!(all.release_drained(&BTreeMap::from([(1, 5)])), 0);
        assert!(all.list_partitions().is_empty() && all.tenants.lock().is_empty());
    }
}
