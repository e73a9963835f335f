//! Changed functions: which functions of a crash's stack were edited between the last build without it and the first with it.
//!
//! The package `compare` compares two symcaches, pure. `store` has the statements, `comparing` finds the builds of a group and compares
//! them, `commits` has the commits of builds and the links to their comparison, `operations` is the API, `pages` the page of a
//! group's changes and of two builds, and `panels` the links to it. `hook` deletes commits, and links texts about groups. `commands`
//! has `unslide builds diff` and `unslide suspects`.

mod commits;
mod comparing;
pub mod hook;
mod markdown;
mod operations;
mod pages;
mod panels;
pub mod store;

use unslide_api::feature::{ApiFeature, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};

/// The name of the feature.
pub const NAME: &str = "changes";

/// The feature. Builds are compared whenever they are read; only their commits are stored.
pub const FEATURE: Feature = Feature { hook: hook::CHANGES_HOOK, ..Feature::new(NAME, |_| feature()) };

/// Makes the feature for the list of the program.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(ApiFeature {
        operations: with_tag(
            NAME,
            "Changed functions: what was edited between two builds, by their symbols, and the commits of builds.",
            operations::routes(),
        ),
        pages: pages::routes(),
        show_panel: Some(panels::show_panel),
        ..ApiFeature::new(NAME)
    })
}
