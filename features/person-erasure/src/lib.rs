//! Erasure of a person: everything that a tenant has of one user, installation or session.
//!
//! `store` has the statements, `search` the search and the deletions, `job` the jobs of the builder, `operations` the API
//! of the tenant's administrators, and `pages` the console. The package `commands` has the subcommand. The rows of other
//! features are found by the declarations of their tables.

mod job;
mod operations;
mod pages;
pub mod search;
pub mod store;

pub use job::end_search;

use unslide_api::feature::{ApiFeature, ListTable, NavigationEntry, NavigationPlace, with_tag};
use unslide_builder::BuilderFeature;
use unslide_feature::{ConfiguredFeature, Feature};
use unslide_model::Scope;
use unslide_store::StoreHook;
use unslide_store::tables::OwnedTable;

/// The name of the feature.
pub const NAME: &str = "person-erasure";

/// The feature. It has no settings.
pub const FEATURE: Feature = Feature {
    hook: StoreHook::with_tables(NAME, OWNED_TABLES),
    builder: BuilderFeature { jobs: job::JOBS },
    ..Feature::new(NAME, |_| feature())
};

/// Makes the feature.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(for_api())
}

/// The tables of the feature.
const OWNED_TABLES: &[OwnedTable] = &[OwnedTable::new("person_erasures")];

/// The list of erasures as a table.
const LIST_TABLES: &[ListTable] = &[ListTable {
    path: operations::PATH,
    name: "person-erasures",
    has_pages: true,
    columns: "id kind person_hash state requested_by requested_at finished_at detail",
}];

fn for_api() -> ApiFeature {
    let about = "Erasure of everything that the tenant has of one person. For a tenant's administrators.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes()),
        pages: pages::routes(),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 134,
            name: NAME,
            path: pages::PATH,
            label: "Erasure",
            scope: Scope::TenantAdmin,
            needs_every_app: true,
            keeps_app: false,
        }],
        tables: LIST_TABLES,
        ..ApiFeature::new(NAME)
    }
}
