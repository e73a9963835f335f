//! What the work of this process used, by the tenant that caused it.

use crate::TenantId;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most tenants that are told apart at a time. What others use counts as shared.
const MOST_TENANTS: usize = 10_000;

/// Amounts of resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUse {
    /// CPU time in microseconds.
    pub cpu_micros: u64,
    /// Bytes of records read from and written to Kafka, before compression.
    pub kafka_bytes: u64,
    /// Requests to object storage.
    pub object_requests: u64,
    /// Bytes sent to and received from object storage.
    pub object_bytes: u64,
    /// Reports and events that were stored.
    pub stored: u64,
}

impl AddAssign for ResourceUse {
    fn add_assign(&mut self, more: ResourceUse) {
        self.cpu_micros += more.cpu_micros;
        self.kafka_bytes += more.kafka_bytes;
        self.object_requests += more.object_requests;
        self.object_bytes += more.object_bytes;
        self.stored += more.stored;
    }
}

/// What was used, by tenant; `None` is what no tenant caused.
pub type ResourceUses = BTreeMap<Option<TenantId>, ResourceUse>;

/// A counter of what is used. Threads share it.
#[derive(Debug, Default)]
pub struct UseMeter(Mutex<ResourceUses>);

impl UseMeter {
    /// Makes a counter at zero.
    #[must_use]
    pub const fn new() -> UseMeter {
        UseMeter(Mutex::new(BTreeMap::new()))
    }

    /// Adds what a tenant used, or what no tenant caused.
    pub fn add(&self, tenant: Option<&TenantId>, used: ResourceUse) {
        let mut uses = self.lock();
        let is_full = uses.len() >= MOST_TENANTS;
        let tenant = tenant.cloned().filter(|tenant| !is_full || uses.contains_key(&Some(tenant.clone())));
        *uses.entry(tenant).or_default() += used;
    }

    /// Returns what was used since the last call, and counts from zero again.
    pub fn take(&self) -> ResourceUses {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, ResourceUses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counter of this process: what a library does for a tenant has no other way to it.
pub static PROCESS_USE: UseMeter = UseMeter::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_add_up_and_are_taken_once() {
        let meter = UseMeter::new();
        let tenant = TenantId::new("acme").unwrap();
        let bytes = |kafka_bytes| ResourceUse { kafka_bytes, ..ResourceUse::default() };
        meter.add(Some(&tenant), bytes(3));
        meter.add(Some(&tenant), bytes(4));
        meter.add(None, bytes(5));
        assert_eq!(meter.take(), BTreeMap::from([(None, bytes(5)), (Some(tenant), bytes(7))]));
        assert_eq!(meter.take(), BTreeMap::new());
    }

    #[test]
    fn what_tenants_beyond_the_most_use_is_shared() {
        let meter = UseMeter::new();
        let stored = ResourceUse { stored: 1, ..ResourceUse::default() };
        let tenant = |number| TenantId::new(&format!("t{number}")).unwrap();
        for number in 0..MOST_TENANTS + 5 {
            meter.add(Some(&tenant(number)), stored);
        }
        meter.add(Some(&tenant(0)), stored);
        let uses = meter.take();
        assert_eq!((uses[&None].stored, uses[&Some(tenant(0))].stored), (5, 2));
    }
}
