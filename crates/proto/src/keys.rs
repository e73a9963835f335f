//! Keys of messages. A key selects the partition, and in a compacted topic it selects the message to replace.

use unslide_model::{DebugId, ReportId, Scoped, TenantId};

/// The longest name of an app in a key, in bytes. It comes from the report, and a key counts to the size of its record.
const MAX_APP_BYTES: usize = 255;

/// Returns an app if its name may be in a key. Other names are no bundle identifiers.
#[must_use]
pub fn find_key_app(app: Option<&str>) -> Option<&str> {
    app.filter(|app| (1..=MAX_APP_BYTES).contains(&app.len()) && !app.contains(char::is_control))
}

/// Returns the key of a record on `crash.reports`: `<tenant>/<app>/<slot>`. The slot is the hash of the report's id modulo
/// `slots`, so the same id of one app is in one partition. A report without an [app for keys](find_key_app) has the key
/// of [`for_report`].
#[must_use]
pub fn for_input(report: &Scoped<ReportId>, app: Option<&str>, slots: u16) -> String {
    match find_key_app(app) {
        Some(app) => {
            let slot = crc32fast::hash(&report.id.0) % u32::from(slots.max(1));
            format!("{}/{app}/{slot}", report.tenant)
        }
        None => for_report(report),
    }
}

/// Returns the key of a report on `crash.symbolicated` and of a request on `unslide.resymbolicate`:
/// `<tenant>/<report id>`.
#[must_use]
pub fn for_report(report: &Scoped<ReportId>) -> String {
    format!("{}/{}", report.tenant, report.id)
}

/// Returns the key of a symbol event: `<tenant>/<debug id>`, or `/<debug id>` without a tenant (system
/// symbols).
#[must_use]
pub fn for_symbols(tenant: Option<&TenantId>, debug_id: &DebugId) -> String {
    format!("{}/{debug_id}", tenant.map_or("", TenantId::as_str))
}

/// Returns the key of a tenant's configuration: its slug.
#[must_use]
pub fn for_tenant(tenant: &TenantId) -> String {
    tenant.as_str().to_owned()
}

/// Returns the key of the symcaches that a partition's records used: `<topic>/<partition>`.
#[must_use]
pub fn for_partition(topic: &str, partition: i32) -> String {
    format!("{topic}/{partition}")
}

/// Reads a key of [`for_partition`]: the topic and the partition.
#[must_use]
pub fn read_partition(key: &[u8]) -> Option<(&str, i32)> {
    let (topic, partition) = std::str::from_utf8(key).ok()?.rsplit_once('/')?;
    Some((topic, partition.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_shape() {
        let tenant = TenantId::new("acme").unwrap();
        assert_eq!(for_report(&tenant.scope(ReportId([1; 16]))), "acme/01010101-0101-0101-0101-010101010101");
        let report = tenant.scope(ReportId([1; 16]));
        let (long, longest) = ("a".repeat(256), "a".repeat(255));
        for unknown in [None, Some(""), Some("a\0b"), Some(long.as_str())] {
            assert_eq!(for_input(&report, unknown, 4), for_report(&report));
        }
        assert_eq!(for_input(&report, Some(&longest), 1), format!("acme/{longest}/0"));
        assert_eq!(
            read_partition(for_partition("x.crash.reports", 7).as_bytes()),
            Some(("x.crash.reports", 7))
        );
        assert_eq!([&b"crash.reports"[..], b"a/b", b"\xff/1"].map(read_partition), [None; 3]);
        assert_eq!(for_symbols(None, &DebugId([2; 16])), "/02020202-0202-0202-0202-020202020202");
    }

    /// Reports of an app that grows stay in a partition of their slot, and none of them moves while it does not grow.
    #[test]
    fn ids_of_an_app_fill_its_slots_and_one_id_has_one_slot() {
        let tenant = TenantId::new("acme").unwrap();
        for slots in [1_u16, 2, 8] {
            // The last bytes of some ids are the same on each device.
            let ids = (0..800_u16).map(|n| {
                let mut id = [7; 16];
                id[..2].copy_from_slice(&n.to_be_bytes());
                tenant.scope(ReportId(id))
            });
            let mut counts = std::collections::BTreeMap::<String, u32>::new();
            for id in ids {
                let key = for_input(&id, Some("com.acme.shop"), slots);
                assert_eq!(key, for_input(&id, Some("com.acme.shop"), slots));
                *counts.entry(key).or_default() += 1;
            }
            assert_eq!(counts.len(), usize::from(slots));
            let fair = 800 / u32::from(slots);
            assert!(counts.values().all(|count| (fair / 2..=fair * 2).contains(count)), "{counts:?}");
        }
    }
}
