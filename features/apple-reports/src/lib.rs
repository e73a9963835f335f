//! Reports in Apple's own formats: readers that translate them into reports in KSCrash's form.
//!
//! `ips` reads crash logs of two JSON texts. `json` writes the translated report.

mod ips;
mod json;

use unslide_api::feature::ApiFeature;
use unslide_feature::{Feature, SymbolizerFeature};
use unslide_report::reader::ReportReader;
use unslide_runtime::config::ConfigReader;

/// The name of the feature.
pub const NAME: &str = "apple-reports";

/// The readers, in the order in which they are tried.
pub const READERS: &[ReportReader] = &[ips::READER];

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
