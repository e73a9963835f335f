//! Keys of messages. A key selects the partition, and in a compacted topic it selects the message to replace.

use unslide_model::{DebugId, ReportId, Scoped, TenantId};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_shape() {
        let tenant = TenantId::new("acme").unwrap();
        assert_eq!(for_report(&tenant.scope(ReportId([1; 16]))), "acme/01010101-0101-0101-0101-010101010101");
        assert_eq!(for_symbols(None, &DebugId([2; 16])), "/02020202-0202-0202-0202-020202020202");
    }
}
