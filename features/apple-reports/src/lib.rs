//! Reports in Apple's own formats: readers that translate them into reports in KSCrash's form.
//!
//! The package `formats` has them.

use unslide_api::feature::ApiFeature;
pub use unslide_apple_reports_formats::{NAME, READERS, SYMBOLIZER};
use unslide_feature::{ConfiguredFeature, Feature};

/// The feature. It has no settings.
pub const FEATURE: Feature = Feature { symbolizer: SYMBOLIZER, ..Feature::new(NAME, |_| feature()) };

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(ApiFeature::new(NAME))
}
