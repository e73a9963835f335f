//! Captures: profiles, graphs of memory and logs of allocations. A tenant uploads one, the builder analyses it with the
//! tenant's symbols, and analyses it again when symbols come late.
//!
//! `capture` is the pure analysis of files, `store` has the statements, `operations` the API, `pages` the console,
//! and `analysis` the jobs of the builder. The package `formats` beside this one reads the files of other tools, and `commands` has
//! the subcommands.

mod analysis;
pub mod capture;
pub mod ids;
mod keys;
mod operations;
mod pages;
pub mod store;

pub use keys::CaptureKeys;
pub use store::JOB_KIND;

use unslide_api::feature::{ApiFeature, ListTable, NavigationEntry, NavigationPlace, with_tag};
use unslide_builder::BuilderFeature;
use unslide_feature::{ConfiguredFeature, Feature};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "captures";

/// The feature. It has no settings: its limits are those of uploads.
pub const FEATURE: Feature = Feature {
    hook: store::CAPTURE_HOOK,
    builder: BuilderFeature { jobs: analysis::JOBS },
    ..Feature::new(NAME, |_| feature())
};

#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(for_api())
}

/// The list of captures as a table.
const LIST_TABLES: &[ListTable] = &[ListTable {
    path: "/v1/captures",
    name: NAME,
    has_pages: true,
    columns: "id app version session_id kind layout state reason detail size received_at analysed_at",
}];

fn for_api() -> ApiFeature {
    let about = "Files that a device recorded: send, find, read, delete.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes()),
        pages: pages::routes(),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 65,
            name: NAME,
            path: pages::CAPTURES_PATH,
            label: "Captures",
            scope: Scope::ReportsRead,
            needs_every_app: false,
            keeps_app: true,
        }],
        tables: LIST_TABLES,
        show_panel: Some(pages::show_panel),
        ..ApiFeature::new(NAME)
    }
}
