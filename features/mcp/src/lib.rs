//! Tools of the Model Context Protocol: an assistant reads groups and reports, and changes groups if it may.
//!
//! The package `tools` has the tools and speaks the protocol. `endpoint` serves it below `/mcp`, and the package `commands` on
//! standard input and output. `caller` finds out who sends a message, `oauth` lets assistants sign people in, `pages` has the consent
//! and the list of what a person allowed, `store` the statements, and `settings` the settings.

mod caller;
mod endpoint;
pub mod ids;
mod oauth;
mod pages;
mod settings;
pub mod store;

pub use settings::{Config, McpApiSettings, McpSettings};

use axum::Extension;
use oauth::Mcp;
use std::sync::Arc;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "mcp";

/// The feature, with its table.
pub const FEATURE: Feature =
    Feature { hook: store::MCP_HOOK, ..Feature::new(NAME, |reader| feature(reader.read_whole())) };

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let settings = FeatureSettings {
        problems: config.api.mcp.parse_receivers().err().into_iter().collect(),
        warnings: config.api.mcp.find_insecure(),
        ..FeatureSettings::from_config(&config)
    };
    let mcp = Extension(Arc::new(Mcp::new(config.api)));
    let api = ApiFeature {
        routes: endpoint::routes().merge(oauth::routes()).layer(mcp.clone()),
        pages: pages::routes().layer(mcp),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 64,
            name: NAME,
            path: pages::ASSISTANTS_PATH,
            label: "Assistants",
            scope: Scope::ReportsRead,
            needs_every_app: false,
            keeps_app: false,
        }],
        ..ApiFeature::new(NAME)
    };
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(api) }
}
