//! Tools of the Model Context Protocol: an assistant reads groups and reports, and changes groups if it may.
//!
//! The package `tools` has the tools and speaks the protocol. `endpoint` serves it below `/mcp`, and the package `commands` on
//! standard input and output.

mod endpoint;

use unslide_api::feature::ApiFeature;
use unslide_feature::Feature;
use unslide_runtime::config::ConfigReader;

/// The name of the feature.
pub const NAME: &str = "mcp";

/// Makes the feature without reading any setting.
pub fn read(_: &mut ConfigReader) -> Feature {
    feature()
}

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> Feature {
    let api = ApiFeature { routes: endpoint::routes(), ..ApiFeature::new(NAME, "") };
    Feature::new(NAME, api)
}
