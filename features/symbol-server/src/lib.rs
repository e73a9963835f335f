//! Symbol server: dSYMs read back, for debuggers, symbol-server clients and profilers.
//!
//! `files` answers with the bytes of a file, `operations` and `layouts` are the paths on which clients ask for one, `names`
//! answers with names alone, with a key in the path. The package `commands` has `unslide dsym-for-uuid`.

mod files;
mod layouts;
mod names;
mod operations;
mod store;

pub use names::NAMES_KEY_MAKER;
pub use names::store::purge_expired;

use axum::Extension;
use files::DownloadRates;
use names::NamesKeys;
use std::sync::Arc;
use unslide_api::feature::ApiFeature;
use unslide_builder::{BuilderFeature, Clearing};
use unslide_feature::Feature;
use unslide_runtime::config::ConfigReader;
use unslide_store::tables::OwnedTable;
use unslide_store::{Store, StoreHook};

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

/// Makes the feature without reading any setting.
pub fn read(_: &mut ConfigReader) -> Feature {
    feature()
}

/// The tables of the feature.
const OWNED_TABLES: &[OwnedTable] = &[OwnedTable::purged("names_keys")];

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> Feature {
    let server = Extension(Arc::new(SymbolServer::default()));
    let operations = operations::routes().merge(layouts::routes()).merge(names::operations::routes());
    let api = ApiFeature {
        operations: operations.layer(server.clone()),
        routes: names::routes().layer(server),
        tables: names::operations::NAMES_KEY_TABLES,
        ..ApiFeature::new(NAME, "Files of symbols, and keys that give names of functions to profilers.")
    };
    Feature {
        hook: StoreHook::with_tables(NAME, OWNED_TABLES),
        builder: BuilderFeature { name: NAME, clear: Some(purge_keys), jobs: &[] },
        ..Feature::new(NAME, api)
    }
}

fn purge_keys(store: &Store) -> Clearing<'_> {
    Box::pin(purge_expired(store))
}
