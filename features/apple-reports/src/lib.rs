//! Reports in Apple's own formats: readers that translate them into reports in KSCrash's form.
//!
//! The package `formats` has them.

use unslide_api::feature::ApiFeature;
pub use unslide_apple_reports_formats::{NAME, READERS, SYMBOLIZER};
use unslide_feature::Feature;
use unslide_runtime::config::ConfigReader;

/// Makes the feature without reading any setting.
pub fn read(_: &mut ConfigReader) -> Feature {
    feature()
}

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> Feature {
    Feature { symbolizer: SYMBOLIZER, ..Feature::new(NAME, ApiFeature::new(NAME, "")) }
}
