//! Reports in Apple's own formats: readers that translate them into reports in KSCrash's form.
//!
//! Each module reads one format. `json` writes the translated report.

mod call_tree;
mod crash_text;
mod identity;
mod ips;
mod json;
mod metric_kit;
mod other_formats;
mod readers;

pub use readers::READERS;
use unslide_api::feature::ApiFeature;
use unslide_feature::{Feature, SymbolizerFeature};
use unslide_runtime::config::ConfigReader;

/// The name of the feature.
pub const NAME: &str = "apple-reports";

/// Makes the feature without reading any setting.
pub fn read(_: &mut ConfigReader) -> Feature {
    feature()
}

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> Feature {
    Feature {
        symbolizer: SymbolizerFeature { readers: READERS, ..SymbolizerFeature::new(NAME) },
        ..Feature::new(NAME, ApiFeature::new(NAME, ""))
    }
}
