//! The side bar: the entries of the console's own pages, and among them those of features.

use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace};
use unslide_model::Scope;
use unslide_site::{FIRST_PAGE, SideBar, list_entries};

/// A page with data of one app.
const fn app_entry(name: &'static str, path: &'static str, label: &'static str) -> NavigationEntry {
    NavigationEntry { scope: Scope::ReportsRead, keeps_app: true, ..tenant_entry(name, path, label) }
}

/// A page of the tenant.
const fn tenant_entry(name: &'static str, path: &'static str, label: &'static str) -> NavigationEntry {
    NavigationEntry {
        place: NavigationPlace::SideBar,
        name,
        path,
        label,
        scope: Scope::TenantAdmin,
        needs_every_app: false,
        keeps_app: false,
    }
}

/// A page of the tenant for keys of all apps.
const fn whole_tenant_entry(name: &'static str, path: &'static str, label: &'static str) -> NavigationEntry {
    NavigationEntry { needs_every_app: true, ..tenant_entry(name, path, label) }
}

const NAVIGATION_SEPARATOR: NavigationEntry = tenant_entry("", "", "");
/// Entries for the data that apps send. Those of features follow.
const APP_ENTRIES: [NavigationEntry; 5] = [
    app_entry("overview", FIRST_PAGE, "Overview"),
    app_entry("groups", "/console/groups", "Groups"),
    app_entry("reports", "/console/reports", "Reports"),
    app_entry("versions", "/console/versions", "Versions"),
    NavigationEntry { scope: Scope::SymbolsRead, ..app_entry("symbols", "/console/symbols", "Symbols") },
];
/// Entries for a tenant's administrators.
const TENANT_ENTRIES: [NavigationEntry; 6] = [
    NAVIGATION_SEPARATOR,
    whole_tenant_entry("dead-letters", "/console/dead-letters", "Dead letters"),
    whole_tenant_entry("audit-log", "/console/audit-log", "Audit log"),
    tenant_entry("keys", "/console/keys", "Keys"),
    tenant_entry("data", "/console/data", "Stored data"),
    tenant_entry("settings", "/console/settings", "Settings"),
];
/// The entries that only operators see.
const OPERATOR_ENTRIES: [NavigationEntry; 2] = [
    NavigationEntry { scope: Scope::Operator, needs_every_app: true, ..NAVIGATION_SEPARATOR },
    NavigationEntry {
        scope: Scope::Operator,
        ..whole_tenant_entry("tenants", "/console/tenants", "Tenants")
    },
];

/// Returns the entries of the side bar with those of features.
pub fn collect_side_bar(features: &[ApiFeature]) -> SideBar {
    let added = list_entries(features, NavigationPlace::SideBar);
    SideBar(APP_ENTRIES.into_iter().chain(added).chain(TENANT_ENTRIES).chain(OPERATOR_ENTRIES).collect())
}
