//! Own keys: what an app sets as its keys, counted in the newest reports of the app or of a group.
//!
//! The core stores the keys with each report, and filters reports by them. `store` has the statements of the counts,
//! `operations` the API, `pages` the page of an app, and `panels` the keys on the page of a group. `commands` has the subcommand.

mod operations;
mod pages;
mod panels;
pub mod store;

use unslide_api::feature::{ApiFeature, ListTable, NavigationEntry, NavigationPlace, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "own-keys";

/// The feature. It has no tables: the keys of a report are in its row.
pub const FEATURE: Feature = Feature::new(NAME, |_| feature());

/// Makes the feature for the list of the program.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(for_api())
}

/// The keys of an app, and the values of a key.
const LIST_TABLES: &[ListTable] = &[
    ListTable {
        path: "/v1/apps/{app}/keys",
        name: NAME,
        has_pages: false,
        columns: "name reports share values",
    },
    ListTable {
        path: "/v1/apps/{app}/keys/{key}",
        name: "own-key-values",
        has_pages: false,
        columns: "value reports share",
    },
];

fn for_api() -> ApiFeature {
    ApiFeature {
        operations: with_tag(
            NAME,
            "Own keys of apps: plans, flags and experiments, counted in reports.",
            operations::routes(),
        ),
        pages: pages::routes(),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 36,
            name: NAME,
            path: pages::OWN_KEYS_PAGE,
            label: "Own keys",
            scope: Scope::ReportsRead,
            needs_every_app: false,
            keeps_app: true,
        }],
        tables: LIST_TABLES,
        show_panel: Some(panels::show_panel),
        ..ApiFeature::new(NAME)
    }
}
