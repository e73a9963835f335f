//! Verdicts: whether a resolved bug is fixed, and whether a release may go on, by tests that may be read on any day.
//!
//! The package `statistics` beside this one has the tests, pure. `store` reads the counts, `fix` and `release` bring them into the
//! form of the tests and say the verdicts in words, `operations` is the API, and `panels` has the sections of pages. `commands` has
//! `unslide release check`.

pub mod fix;
mod operations;
mod panels;
pub mod release;
pub mod store;

use unslide_api::feature::{ApiFeature, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};

/// The name of the feature.
pub const NAME: &str = "verdicts";

/// The feature. It has no tables: it reads the counts of reports and sessions.
pub const FEATURE: Feature = Feature::new(NAME, |_| feature());

/// Makes the feature for the list of the program.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(ApiFeature {
        operations: with_tag(
            NAME,
            "Verdicts: whether a resolved bug is fixed, and whether a release may go on.",
            operations::routes(),
        ),
        show_panel: Some(panels::show_panel),
        ..ApiFeature::new(NAME)
    })
}
