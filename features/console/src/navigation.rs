//! The side bar: the entries of the console's own pages, and among them those of features.

use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace};
use unslide_model::Scope;
use unslide_site::{FIRST_PAGE, SideBar, list_entries};

/// A page with data of one app.
const fn app_entry(rank: u8, name: &'static str, path: &'static str, label: &'static str) -> NavigationEntry {
    NavigationEntry { scope: Scope::ReportsRead, keeps_app: true, ..tenant_entry(rank, name, path, label) }
}

/// A page of the tenant.
const fn tenant_entry(
    rank: u8,
    name: &'static str,
    path: &'static str,
    label: &'static str,
) -> NavigationEntry {
    NavigationEntry {
        place: NavigationPlace::SideBar,
        rank,
        name,
        path,
        label,
        scope: Scope::TenantAdmin,
        needs_every_app: false,
        keeps_app: false,
    }
}

/// A page of the tenant for keys of all apps.
const fn whole_tenant_entry(
    rank: u8,
    name: &'static str,
    path: &'static str,
    label: &'static str,
) -> NavigationEntry {
    NavigationEntry { needs_every_app: true, ..tenant_entry(rank, name, path, label) }
}

const fn separator(rank: u8) -> NavigationEntry {
    tenant_entry(rank, "", "", "")
}

/// The entries of the console's own pages: the data that apps send, what a tenant's administrators set up, and what only
/// operators see. Those of features have ranks between them.
const ENTRIES: [NavigationEntry; 13] = [
    app_entry(10, "overview", FIRST_PAGE, "Overview"),
    app_entry(20, "groups", "/console/groups", "Groups"),
    app_entry(40, "versions", "/console/versions", "Versions"),
    app_entry(45, "reports", "/console/reports", "Reports"),
    NavigationEntry { scope: Scope::SymbolsRead, ..app_entry(50, "symbols", "/console/symbols", "Symbols") },
    separator(100),
    tenant_entry(110, "settings", "/console/settings", "Settings"),
    tenant_entry(120, "keys", "/console/keys", "Keys"),
    whole_tenant_entry(140, "dead-letters", "/console/dead-letters", "Dead letters"),
    tenant_entry(150, "data", "/console/data", "Stored data"),
    whole_tenant_entry(160, "audit-log", "/console/audit-log", "Audit log"),
    NavigationEntry { scope: Scope::Operator, needs_every_app: true, ..separator(200) },
    NavigationEntry {
        scope: Scope::Operator,
        ..whole_tenant_entry(210, "tenants", "/console/tenants", "Tenants")
    },
];

/// Returns the entries of the side bar with those of features, the most used ones first.
pub fn collect_side_bar(features: &[ApiFeature]) -> SideBar {
    let mut entries: Vec<NavigationEntry> =
        ENTRIES.into_iter().chain(list_entries(features, NavigationPlace::SideBar)).collect();
    entries.sort_by_key(|entry| entry.rank);
    SideBar(entries.into())
}
