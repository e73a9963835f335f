//! Changed functions: which functions of a crash's stack were edited between the last build without it and the first with it.
//!
//! The package `compare` compares two symcaches, pure. `store` has the statement of a group's versions, `comparing` finds the builds of a
//! group and compares them, `operations` is the API, `pages` the page of a group's changes and of two builds, and `panels` the
//! links to it. `commands` has `unslide builds diff`.

mod comparing;
mod operations;
mod pages;
mod panels;
pub mod store;

use unslide_api::feature::{ApiFeature, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};

/// The name of the feature.
pub const NAME: &str = "changes";

/// The feature. It has no tables: builds are compared whenever they are read.
pub const FEATURE: Feature = Feature::new(NAME, |_| feature());

/// Makes the feature for the list of the program.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(ApiFeature {
        operations: with_tag(
            NAME,
            "Changed functions: what was edited between two builds, by their symbols.",
            operations::routes(),
        ),
        pages: pages::routes(),
        show_panel: Some(panels::show_panel),
        ..ApiFeature::new(NAME)
    })
}
