//! Fault analysis: says of a crash what was wrong at its instruction.
//!
//! The package `analyses` has the rules, and `commands` the subcommand. `operations` has the tenant's switch.

mod operations;

pub use unslide_fault_analysis_analyses::{
    ANALYSIS, APP_TEXT, NAME, SYMBOLIZER, VARIABLES_ANALYSIS, VARIABLES_TABLE,
};

use unslide_api::feature::ApiFeature;
use unslide_feature::Feature;
use unslide_runtime::config::ConfigReader;

/// Makes the feature without reading any setting.
pub fn read(_: &mut ConfigReader) -> Feature {
    feature()
}

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> Feature {
    let api = ApiFeature {
        operations: operations::routes(),
        ..ApiFeature::new(NAME, "The analysis of what was wrong at the instruction of a crash.")
    };
    Feature { symbolizer: SYMBOLIZER, ..Feature::new(NAME, api) }
}
