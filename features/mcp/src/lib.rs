//! Tools of the Model Context Protocol: an assistant reads groups and reports, and changes groups if it may.
//!
//! The package `tools` has the tools and speaks the protocol. `endpoint` serves it below `/mcp`, and the package `commands` on
//! standard input and output.

mod endpoint;

use unslide_api::feature::ApiFeature;
use unslide_feature::{ConfiguredFeature, Feature};

/// The name of the feature.
pub const NAME: &str = "mcp";

/// The feature. It has no settings.
pub const FEATURE: Feature = Feature::new(NAME, |_| feature());

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    let api = ApiFeature { routes: endpoint::routes(), ..ApiFeature::new(NAME) };
    FEATURE.with_api(api)
}
