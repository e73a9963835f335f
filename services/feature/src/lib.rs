//! A feature: one capability of the product that no service knows.
//!
//! Each service says what can be added to it. A [`Feature`] is all of that for one capability: one plain value. The binary
//! has the list of features and hands each service its part.

use std::error::Error;
use unslide_api::ApiFeatures;
use unslide_api::feature::ApiFeature;
use unslide_builder::{BuilderFeature, BuilderFeatures};
pub use unslide_indexer::IndexerFeature;
use unslide_indexer::IndexerFeatures;
use unslide_model::TenantId;
use unslide_report::reader::ReportReaders;
use unslide_runtime::config::ConfigPart;
use unslide_store::StoreHook;
use unslide_store::keys::{API_KEYS, KeyKind};
use unslide_symbolicate::{Analysis, DerivedObject, SymbolizerFeature};
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
    /// Its additions to the indexer.
    pub indexer: IndexerFeature,
    pub symbolizer: SymbolizerFeature,
    /// Its kinds of keys.
    pub key_kinds: &'static [&'static KeyKind],
}

impl Feature {
    /// Makes a feature that adds nothing but this to the api.
    #[must_use]
    pub fn new(name: &'static str, api: ApiFeature) -> Feature {
        Feature {
            settings: None,
            hook: StoreHook::new(name),
            api,
            builder: BuilderFeature { name, clear: None, jobs: &[] },
            indexer: IndexerFeature::default(),
            symbolizer: SymbolizerFeature::new(name),
            key_kinds: &[],
        }
    }
}

/// An API key that is to be written in another form.
#[derive(Clone, Copy, Debug)]
pub struct TokenRequest<'k> {
    /// The text of the key.
    pub key: &'k str,
    /// The tenant of the key.
    pub tenant: &'k TenantId,
    /// The URL of the api, as the token's users reach it.
    pub url: &'k str,
    /// When the token is issued, in seconds since 1970.
    pub issued_at: i64,
}

/// Writes API keys in the form that clients of other products expect.
#[derive(Clone, Copy, Debug)]
pub struct TokenWriter {
    /// Returns the token for a key.
    pub write: for<'k> fn(&TokenRequest<'k>) -> Result<String, Box<dyn Error + Send + Sync>>,
}

/// Returns the hooks of features, in the order of the list: the order in which they lock rows.
#[must_use]
pub fn collect_hooks(features: &[Feature]) -> Vec<StoreHook> {
    features.iter().map(|feature| feature.hook).collect()
}

/// Returns the kinds of keys: that of the core, and those of features.
#[must_use]
pub fn collect_key_kinds(features: &[Feature]) -> Vec<&'static KeyKind> {
    let kinds = features.iter().flat_map(|feature| feature.key_kinds).copied();
    std::iter::once(&API_KEYS).chain(kinds).collect()
}

/// Returns the additions of features to the api.
#[must_use]
pub fn for_api(features: &[Feature]) -> ApiFeatures {
    let api = features.iter().map(|feature| feature.api.clone());
    ApiFeatures {
        hooks: collect_hooks(features),
        readers: collect_readers(features),
        features: api.collect(),
        analyses: collect_analyses(features),
    }
}

/// Returns the additions of features to the builder.
#[must_use]
pub fn for_builder(features: &[Feature]) -> BuilderFeatures {
    let builder = features.iter().map(|feature| feature.builder);
    BuilderFeatures {
        hooks: collect_hooks(features),
        readers: collect_readers(features),
        features: builder.collect(),
        derived: collect_derived(&collect_analyses(features)),
    }
}

/// Returns the additions of features to the indexer.
#[must_use]
pub fn for_indexer(features: &[Feature]) -> IndexerFeatures {
    let indexer = features.iter().map(|feature| feature.indexer);
    IndexerFeatures {
        hooks: collect_hooks(features),
        readers: collect_readers(features),
        features: indexer.collect(),
    }
}

/// Returns the additions of features to the symbolizer.
#[must_use]
pub fn for_symbolizer(features: &[Feature]) -> SymbolizerFeatures {
    SymbolizerFeatures { readers: collect_readers(features), analyses: collect_analyses(features) }
}

/// Returns the readers of features, in the order of the list. Every service that reads reports uses them.
#[must_use]
pub fn collect_readers(features: &[Feature]) -> ReportReaders {
    ReportReaders::new(features.iter().flat_map(|feature| feature.symbolizer.readers).copied())
}

/// Returns the analyses of features, in the order of the list.
#[must_use]
pub fn collect_analyses(features: &[Feature]) -> Vec<Analysis> {
    features.iter().flat_map(|feature| feature.symbolizer.analyses).copied().collect()
}

/// Returns the derived objects that analyses read, each once.
#[must_use]
pub fn collect_derived(analyses: &[Analysis]) -> Vec<DerivedObject> {
    let mut all: Vec<DerivedObject> = Vec::new();
    for object in analyses.iter().flat_map(|analysis| analysis.derived) {
        if all.iter().all(|other| other.name != object.name) {
            all.push(*object);
        }
    }
    all
}
