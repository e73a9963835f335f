//! Fault analysis: says of a crash what was wrong at its instruction.
//!
//! The package `analyses` has the rules, and `commands` the subcommand. `operations` has the tenant's switch.

mod operations;

pub use unslide_fault_analysis_analyses::{
    ANALYSIS, APP_TEXT, NAME, SYMBOLIZER, VARIABLES_ANALYSIS, VARIABLES_TABLE,
};

use unslide_api::feature::{ApiFeature, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};

/// The feature. It has no settings.
pub const FEATURE: Feature = Feature { symbolizer: SYMBOLIZER, ..Feature::new(NAME, |_| feature()) };

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    let about = "The analysis of what was wrong at the instruction of a crash.";
    let api = ApiFeature { operations: with_tag(NAME, about, operations::routes()), ..ApiFeature::new(NAME) };
    FEATURE.with_api(api)
}
