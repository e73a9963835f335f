//! The symcaches that records of one partition used lately, and the list of them for the partition's next worker. The list
//! names the tenants of the records as well.

use std::collections::{HashMap, HashSet};
use unslide_model::{DebugId, Owned, Owner, TenantId};
use unslide_proto::Message;
use unslide_proto::symbol;

/// Age of a use that a list no longer has, in microseconds.
const USE_AGE_MICROS: i64 = 3_600_000_000;
/// Age of the uses that the worker before recorded, in microseconds. They leave the list unless they are used again.
const EARLIER_USE_AGE_MICROS: i64 = USE_AGE_MICROS / 2;
/// Age of a list after which it is written again if records came, in microseconds. A tenant that is in no list is listed at
/// once.
const LIST_AGE_MICROS: i64 = 300_000_000;
/// The most symcaches of a list. With the longest slugs it has 31 KB.
const MAX_LISTED: usize = 500;

/// Symcaches with the times of their last uses, by the monotonic clock in microseconds.
#[derive(Default)]
pub struct UsedSymbols {
    times: HashMap<Owned<DebugId>, i64>,
    /// True if a symcache was used since the last list.
    changed: bool,
    /// Tenants of the last list, with its time.
    listed: Option<(i64, HashSet<TenantId>)>,
}

impl UsedSymbols {
    /// Takes over the list of the worker before.
    pub fn from_list(listed: &[Owned<DebugId>], now: i64) -> UsedSymbols {
        let used_at = |rank: usize| now - EARLIER_USE_AGE_MICROS - i64::try_from(rank).unwrap_or(0);
        let times = listed.iter().enumerate().map(|(rank, id)| (id.clone(), used_at(rank)));
        UsedSymbols { times: times.collect(), ..UsedSymbols::default() }
    }

    /// Records that a report used these symcaches.
    pub fn record_use(&mut self, ids: impl IntoIterator<Item = Owned<DebugId>>, now: i64) {
        self.times.extend(ids.into_iter().map(|id| (id, now)));
        self.changed = true;
        if self.times.len() > 2 * MAX_LISTED {
            self.keep_newest(now);
        }
    }

    /// Returns the list as a message, with the tenants of the latest records. Returns `None` if there is nothing to tell, or
    /// if the last list is new and names them all. `is_last` is true for the list of a worker that stops.
    pub fn take_list(&mut self, tenants: &[TenantId], now: i64, is_last: bool) -> Option<Vec<u8>> {
        let is_due = self.listed.as_ref().is_none_or(|(at, listed)| {
            is_last || now - at >= LIST_AGE_MICROS || tenants.iter().any(|tenant| !listed.contains(tenant))
        });
        if !is_due || (!self.changed && tenants.is_empty()) {
            return None;
        }
        self.changed = false;
        self.listed = Some((now, tenants.iter().cloned().collect()));
        let newest = self.keep_newest(now);
        let symbols = newest.iter().map(|id| symbol::UsedSymbol {
            tenant: id.owner.tenant().map(TenantId::to_string).unwrap_or_default(),
            debug_id: id.id.0.to_vec().into(),
        });
        let tenants = tenants.iter().map(TenantId::to_string).collect();
        Some(symbol::UsedSymbols { symbols: symbols.collect(), tenants }.encode_to_vec())
    }

    /// Forgets old uses and those over the limit. Returns the others, the newest first.
    fn keep_newest(&mut self, now: i64) -> Vec<Owned<DebugId>> {
        let mut newest: Vec<(Owned<DebugId>, i64)> = self.times.drain().collect();
        newest.retain(|(_, used)| now - used <= USE_AGE_MICROS);
        newest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        newest.truncate(MAX_LISTED);
        self.times = newest.iter().cloned().collect();
        newest.into_iter().map(|(id, _)| id).collect()
    }
}

/// Reads a list. What it has of unreadable ids is left out: a symcache that is not loaded costs only time.
pub fn read_list(value: &[u8]) -> Vec<Owned<DebugId>> {
    let list = symbol::UsedSymbols::decode(value).unwrap_or_default();
    let read = |used: &symbol::UsedSymbol| {
        let owner = match used.tenant.as_str() {
            "" => Owner::System,
            slug => Owner::Tenant(TenantId::new(slug).ok()?),
        };
        Some(owner.own(DebugId(<[u8; 16]>::try_from(&used.debug_id[..]).ok()?)))
    };
    list.symbols.iter().take(MAX_LISTED).filter_map(read).collect()
}

/// Reads the tenants of a list, as it names them.
pub fn read_tenants(value: &[u8]) -> Vec<String> {
    symbol::UsedSymbols::decode(value).unwrap_or_default().tenants
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn id(n: u16) -> Owned<DebugId> {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        let owner =
            if n.is_multiple_of(2) { Owner::System } else { Owner::Tenant(TenantId::new("acme").unwrap()) };
        owner.own(DebugId(bytes))
    }

    #[test]
    fn a_list_has_the_uses_of_an_hour_the_last_first() {
        let mut used = UsedSymbols::default();
        assert_eq!(used.take_list(&[], 0, false), None);
        used.record_use([id(1), id(2)], 0);
        used.record_use([id(3)], 20 * MINUTE);
        used.record_use([id(1)], 30 * MINUTE);
        let list = used.take_list(&[], 61 * MINUTE, false).unwrap();
        assert_eq!(read_list(&list), [id(1), id(3)], "the system's symcache was not used for an hour");
        assert_eq!(used.take_list(&[], 61 * MINUTE, false), None, "nothing was used since");
        used.record_use((0..2_000).map(id), 70 * MINUTE);
        assert_eq!(read_list(&used.take_list(&[], 70 * MINUTE, false).unwrap()).len(), MAX_LISTED);
    }

    #[test]
    fn what_the_worker_before_used_counts_for_half_an_hour() {
        let mut used = UsedSymbols::from_list(&[id(1), id(2)], 0);
        used.record_use([id(3)], MINUTE);
        assert_eq!(read_list(&used.take_list(&[], MINUTE, false).unwrap()), [id(3), id(1), id(2)]);
        used.record_use([id(2)], 2 * MINUTE);
        assert_eq!(read_list(&used.take_list(&[], 31 * MINUTE, false).unwrap()), [id(2), id(3)]);
    }

    #[test]
    fn a_broken_list_is_read_as_far_as_possible() {
        assert_eq!(read_list(b"\xff\xff\xff"), []);
        let used = |tenant: &str, length| symbol::UsedSymbol {
            tenant: tenant.to_owned(),
            debug_id: vec![0; length].into(),
        };
        let symbols = vec![used("A tenant?", 16), used("acme", 3), used("", 16)];
        let list = symbol::UsedSymbols { symbols, ..symbol::UsedSymbols::default() };
        assert_eq!(read_list(&list.encode_to_vec()), [id(0)]);
    }

    #[test]
    fn a_tenant_in_no_list_is_listed_at_once_and_others_every_five_minutes() {
        let tenants: Vec<TenantId> = ["acme", "stark"].map(|slug| TenantId::new(slug).unwrap()).into();
        let mut used = UsedSymbols::default();
        let mut list =
            |tenants: &[TenantId], now, is_last| Some(read_tenants(&used.take_list(tenants, now, is_last)?));
        assert_eq!(list(&tenants[..1], 0, false).unwrap(), ["acme"], "no symcache was used");
        assert_eq!(list(&tenants[..1], MINUTE, false), None);
        assert_eq!(list(&tenants, 2 * MINUTE, false).unwrap(), ["acme", "stark"]);
        assert_eq!(list(&tenants, 3 * MINUTE, false), None);
        assert_eq!(list(&tenants[1..], 4 * MINUTE, true).unwrap(), ["stark"], "the worker stops");
        assert_eq!(list(&tenants, 5 * MINUTE, false).unwrap(), ["acme", "stark"]);
        assert_eq!(list(&tenants, 10 * MINUTE, false).unwrap(), ["acme", "stark"]);
        assert_eq!(list(&[], 20 * MINUTE, false), None);
    }
}
