//! Symbol server: dSYMs read back, for debuggers, symbol-server clients and profilers.
//!
//! `files` answers with the bytes of a file, `operations` and `layouts` are the paths on which clients ask for one, `names`
//! answers with names alone, with a key in the path. The package `commands` has `unslide dsym-for-uuid`.

mod files;
mod layouts;
mod names;
mod operations;
mod store;

pub use names::NAMES_KEYS;

use axum::Extension;
use files::DownloadRates;
use names::NamesKeys;
use std::sync::Arc;
use unslide_api::feature::{ApiFeature, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};

/// The name of the feature.
pub const NAME: &str = "symbol-server";

/// State of the feature in one process of the api.
#[derive(Default)]
pub struct SymbolServer {
    rates: DownloadRates,
    keys: NamesKeys,
}

/// The state of the feature, as operations take it.
type ServerExtension = Extension<Arc<SymbolServer>>;

/// The feature. It has no settings.
pub const FEATURE: Feature = Feature { key_kinds: &[&NAMES_KEYS], ..Feature::new(NAME, |_| feature()) };

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    let server = Extension(Arc::new(SymbolServer::default()));
    let operations = operations::routes().merge(layouts::routes()).merge(names::operations::routes());
    let about = "Files of symbols, and keys that give names of functions to profilers.";
    let api = ApiFeature {
        operations: with_tag(NAME, about, operations.layer(server.clone())),
        routes: names::routes().layer(server),
        tables: names::operations::NAMES_KEY_TABLES,
        ..ApiFeature::new(NAME)
    };
    FEATURE.with_api(api)
}
