//! A feature: one capability of the product that no service knows.
//!
//! Each service says what can be added to it. A [`Feature`] is all of that for one capability: one plain value. The binary
//! has the list of features and hands each service its part.

use unslide_api::ApiFeatures;
use unslide_api::feature::ApiFeature;
use unslide_builder::{BuilderFeature, BuilderFeatures};
use unslide_indexer::IndexerFeatures;
use unslide_report::reader::ReportReaders;
use unslide_runtime::config::ConfigPart;
use unslide_store::StoreHook;
pub use unslide_symbolizer::SymbolizerFeature;
use unslide_symbolizer::SymbolizerFeatures;

/// Everything that one feature adds to the services.
#[derive(Clone)]
pub struct Feature {
    /// Its settings, if it has some. They lie in sections of the services that read them.
    pub settings: Option<ConfigPart>,
    /// Its functions in transactions that store reports.
    pub hook: StoreHook,
    /// Its additions to the api.
    pub api: ApiFeature,
    /// Its additions to the builder.
    pub builder: BuilderFeature,
    /// Its additions to the symbolizer.
    pub symbolizer: SymbolizerFeature,
}

/// Returns the hooks of features, in the order of the list: the order in which they lock rows.
#[must_use]
pub fn hooks(features: &[Feature]) -> Vec<StoreHook> {
    features.iter().map(|feature| feature.hook).collect()
}

/// Returns the additions of features to the api.
#[must_use]
pub fn for_api(features: &[Feature]) -> ApiFeatures {
    let api = features.iter().map(|feature| feature.api.clone());
    ApiFeatures { hooks: hooks(features), readers: readers(features), features: api.collect() }
}

/// Returns the additions of features to the builder.
#[must_use]
pub fn for_builder(features: &[Feature]) -> BuilderFeatures {
    let builder = features.iter().map(|feature| feature.builder);
    BuilderFeatures { hooks: hooks(features), readers: readers(features), features: builder.collect() }
}

/// Returns the additions of features to the indexer.
#[must_use]
pub fn for_indexer(features: &[Feature]) -> IndexerFeatures {
    IndexerFeatures { hooks: hooks(features), readers: readers(features) }
}

/// Returns the additions of features to the symbolizer.
#[must_use]
pub fn for_symbolizer(features: &[Feature]) -> SymbolizerFeatures {
    SymbolizerFeatures { readers: readers(features) }
}

/// Returns the readers of features, in the order of the list. Every service that reads reports uses them.
#[must_use]
pub fn readers(features: &[Feature]) -> ReportReaders {
    ReportReaders::new(features.iter().flat_map(|feature| feature.symbolizer.readers.iter().copied()))
}
