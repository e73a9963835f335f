//! Keys of messages: what decides the partition, and in compacted topics what replaces what.

use unslide_model::{DebugId, ReportId, Scoped, TenantId};

/// The key of a report on `crash.symbolicated` and of a request on `unslide.resymbolicate`:
/// `<tenant>/<report id>`.
#[must_use]
pub fn report(report: &Scoped<ReportId>) -> String {
    format!("{}/{}", report.tenant, report.id)
}

/// The key of a symbol event: `<tenant>/<debug id>`; without a tenant (system symbols)
/// `/<debug id>`.
#[must_use]
pub fn symbol(tenant: Option<&TenantId>, debug_id: &DebugId) -> String {
    format!("{}/{debug_id}", tenant.map_or("", TenantId::as_str))
}

/// The key of a tenant's configuration: its slug.
#[must_use]
pub fn tenant(tenant: &TenantId) -> String {
    tenant.as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_shape() {
        let tenant = TenantId::new("acme").unwrap();
        assert_eq!(report(&tenant.scope(ReportId([1; 16]))), "acme/01010101-0101-0101-0101-010101010101");
        assert_eq!(symbol(None, &DebugId([2; 16])), "/02020202-0202-0202-0202-020202020202");
    }
}
