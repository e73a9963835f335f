//! Uploaders: the routes on which upload clients of other products send debug files.
//!
//! Each protocol has a folder and a line in [`protocol_routes`]. `sign_in` reads the key of a request, `whole_file` hands a
//! file to the upload path of the api. A file that arrives here is an upload like any other from then on. `pages` shows the
//! keys of pipelines and the lines for each client (`client_lines`).

mod bugsnag;
mod client_lines;
mod datadog;
mod declaration;
mod origin;
mod pages;
mod posthog;
mod sentry;
mod sign_in;
mod whole_file;

use axum::Extension;
use axum::middleware::from_fn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, lift_time_bound};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::Scope;
use unslide_store::StoreHook;

/// The name of the feature.
pub const NAME: &str = "uploaders";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The settings of the section `api` that the feature reads.
    pub api: UploaderApiSettings,
    /// The settings of the section `process` that the feature reads.
    pub process: UploaderProcessSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct UploaderApiSettings {
    /// The address of the api, for absolute URLs in answers. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
}

/// The part of the section `process` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct UploaderProcessSettings {
    /// The folder for files that come before their key. The process documents it.
    #[schemars(skip)]
    #[serde(skip_serializing)]
    pub data_dir: PathBuf,
}

/// The feature.
pub const FEATURE: Feature = Feature {
    hook: StoreHook::with_tables(NAME, sentry::OWNED_TABLES),
    ..Feature::new(NAME, |reader| feature(reader.read_whole()))
};

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let settings = FeatureSettings::from_config(&config);
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config)) }
}

/// Returns the routes of every protocol.
fn protocol_routes(config: Config, assembler: &Arc<sentry::Assembler>) -> OperationRouter {
    OperationRouter::new()
        .merge(posthog::posthog_routes(config.api.public_url.clone()))
        .merge(sentry::sentry_routes(config.api.public_url).layer(Extension(assembler.clone())))
        .merge(datadog::datadog_routes())
        .merge(bugsnag::bugsnag_routes(&config.process.data_dir))
}

fn for_api(config: Config) -> ApiFeature {
    let assembler = Arc::new(sentry::Assembler::default());
    ApiFeature {
        pages: pages::page_routes(&config.api.public_url),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 130,
            name: NAME,
            path: pages::UPLOADERS_PATH,
            label: "Uploaders",
            scope: Scope::TenantAdmin,
            needs_every_app: false,
            keeps_app: false,
        }],
        operations: protocol_routes(config, &assembler).layer(from_fn(lift_time_bound)),
        start: Some(Arc::new(move |api, host| Ok(assembler.start_work(&api.symbolication, host)))),
        ..ApiFeature::new(NAME)
    }
}
