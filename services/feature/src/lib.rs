//! A feature: one capability of the product that no service knows.
//!
//! Each service says what can be added to it. A [`Feature`] is all of that for one capability: one plain constant. The
//! binary has the list of features, reads the configuration of each, and hands each service its part.

use schemars::JsonSchema;
use serde::Serialize;
use unslide_api::ApiFeatures;
use unslide_api::feature::ApiFeature;
use unslide_builder::feature::JobState;
use unslide_builder::{BuilderFeature, BuilderFeatures};
use unslide_indexer::IndexerFeatures;
pub use unslide_indexer::{
    IndexerFeature, ReportRewriting, RewriteReports, RewrittenReport, StoredDocument, rewrite_stored_report,
};
use unslide_report::reader::ReportReaders;
use unslide_runtime::ConfigProblem;
use unslide_runtime::config::{ConfigPart, ConfigReader};
use unslide_sandbox::ChildTask;
use unslide_store::StoreHook;
use unslide_store::keys::{API_KEYS, KeyKind};
use unslide_symbolicate::{Analysis, DerivedObject, SymbolizerFeature};
use unslide_symbolizer::SymbolizerFeatures;

/// A feature: everything that it adds to the services, and how its part of the api is made.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    pub name: &'static str,
    /// Its part in transactions of the store.
    pub hook: StoreHook,
    /// Its additions to the builder.
    pub builder: BuilderFeature,
    /// Its additions to the indexer.
    pub indexer: IndexerFeature,
    pub symbolizer: SymbolizerFeature,
    /// Its kinds of keys.
    pub key_kinds: &'static [&'static KeyKind],
    /// Reads its settings, if it has some, and makes its part of the api with them.
    pub read: fn(&mut ConfigReader) -> ConfiguredFeature,
}

impl Feature {
    /// Makes a feature that adds nothing but its part of the api.
    #[must_use]
    pub const fn new(name: &'static str, read: fn(&mut ConfigReader) -> ConfiguredFeature) -> Feature {
        Feature {
            name,
            hook: StoreHook::new(name),
            builder: BuilderFeature { jobs: &[] },
            indexer: IndexerFeature { topics: &[], rewriting: None },
            symbolizer: SymbolizerFeature::new(name),
            key_kinds: &[],
            read,
        }
    }

    /// Adds the part of the api.
    #[must_use]
    pub fn with_api(self, api: ApiFeature) -> ConfiguredFeature {
        ConfiguredFeature { feature: self, settings: None, api, builder: None }
    }
}

/// A feature with its settings.
#[derive(Clone)]
pub struct ConfiguredFeature {
    pub feature: Feature,
    /// Its settings, if it has some. They lie in sections of the services that read them.
    pub settings: Option<FeatureSettings>,
    /// Its additions to the api.
    pub api: ApiFeature,
    /// Its settings as its jobs in the builder use them, if they do.
    pub builder: Option<JobState>,
}

/// The settings of a feature.
#[derive(Clone, Debug)]
pub struct FeatureSettings {
    /// Their values, with what they mean.
    pub part: ConfigPart,
    /// Their problems, for which the configuration is refused.
    pub problems: Vec<ConfigProblem>,
    /// Settings that are allowed but unsafe.
    pub warnings: Vec<ConfigProblem>,
}

impl FeatureSettings {
    /// Describes settings, of which any value is right.
    pub fn from_config<T: JsonSchema + Serialize>(config: &T) -> FeatureSettings {
        let part = ConfigPart::from_config(config);
        FeatureSettings { part, problems: Vec::new(), warnings: Vec::new() }
    }
}

/// Returns the hooks of features, in the order of the list: the order in which they lock rows.
#[must_use]
pub fn collect_hooks(features: &[ConfiguredFeature]) -> Vec<StoreHook> {
    features.iter().map(|feature| feature.feature.hook).collect()
}

/// Returns the kinds of keys: that of the core, and those of features.
#[must_use]
pub fn collect_key_kinds(features: &[Feature]) -> Vec<&'static KeyKind> {
    let kinds = features.iter().flat_map(|feature| feature.key_kinds).copied();
    std::iter::once(&API_KEYS).chain(kinds).collect()
}

/// Returns the additions of features to the api.
#[must_use]
pub fn for_api(features: &[ConfiguredFeature]) -> ApiFeatures {
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
pub fn for_builder(features: &[ConfiguredFeature]) -> BuilderFeatures {
    let builder = features.iter().map(|feature| feature.feature.builder);
    BuilderFeatures {
        hooks: collect_hooks(features),
        readers: collect_readers(features),
        features: builder.collect(),
        derived: collect_derived(&collect_analyses(features)),
        states: features.iter().filter_map(|feature| feature.builder.clone()).collect(),
    }
}

/// Returns the additions of features to the indexer.
#[must_use]
pub fn for_indexer(features: &[ConfiguredFeature]) -> IndexerFeatures {
    let indexer = features.iter().map(|feature| feature.feature.indexer);
    IndexerFeatures {
        hooks: collect_hooks(features),
        readers: collect_readers(features),
        features: indexer.collect(),
    }
}

/// Returns the additions of features to the symbolizer.
#[must_use]
pub fn for_symbolizer(features: &[ConfiguredFeature]) -> SymbolizerFeatures {
    SymbolizerFeatures { readers: collect_readers(features), analyses: collect_analyses(features) }
}

/// Returns the work of features in child processes of the builder, which read no configuration.
#[must_use]
pub fn collect_child_tasks(features: &[Feature]) -> Vec<ChildTask> {
    features.iter().flat_map(|feature| feature.builder.jobs).filter_map(|job| job.child_task).collect()
}

/// Returns the readers of features, in the order of the list. Every service that reads reports uses them.
#[must_use]
pub fn collect_readers(features: &[ConfiguredFeature]) -> ReportReaders {
    ReportReaders::new(features.iter().flat_map(|feature| feature.feature.symbolizer.readers).copied())
}

/// Returns the analyses of features, in the order of the list.
#[must_use]
pub fn collect_analyses(features: &[ConfiguredFeature]) -> Vec<Analysis> {
    features.iter().flat_map(|feature| feature.feature.symbolizer.analyses).copied().collect()
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
