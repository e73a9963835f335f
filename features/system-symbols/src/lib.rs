//! System symbols: names of an operating system's functions, from the dyld shared caches and libraries that a customer
//! has. Only the names and where they begin are sent and kept.
//!
//! `builds` records which images a build has and removes their names, `coverage` says of which builds names are missing, and
//! `pages` shows that in the console. The package `commands` reads the files and sends what the server lacks. Both use the package
//! `formats`.

mod builds;
mod coverage;
mod pages;

use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};
use unslide_model::Scope;
use unslide_store::StoreHook;
use unslide_store::tables::OwnedTable;

/// The name of the feature.
pub const NAME: &str = "system-symbols";

/// The feature. It has no settings.
pub const FEATURE: Feature =
    Feature { hook: StoreHook::with_tables(NAME, OWNED_TABLES), ..Feature::new(NAME, |_| feature()) };

/// The tables of the feature.
const OWNED_TABLES: &[OwnedTable] = &[OwnedTable::new("system_symbol_builds")];

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    let about = "Names of the operating systems' functions, and the builds that lack them.";
    let api = ApiFeature {
        operations: with_tag(NAME, about, coverage::operation::routes().merge(builds::routes())),
        pages: pages::routes(),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 70,
            name: NAME,
            path: pages::COVERAGE_PAGE,
            label: "System symbols",
            scope: Scope::ReportsRead,
            needs_every_app: false,
            keeps_app: false,
        }],
        ..ApiFeature::new(NAME)
    };
    FEATURE.with_api(api)
}
