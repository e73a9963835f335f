//! What tenants cost: CPU time, bytes of Kafka, requests and bytes of object storage, and stored reports and events, by day.
//!
//! The services count what they use (`unslide-model`, `resource_use`), and the core stores it. `settings` has the operator's prices,
//! `operations` the API of operators, and `pages` the console.

mod operations;
mod pages;
mod settings;

pub use settings::{Config, CostsApiSettings, Prices};

use axum::Extension;
use std::sync::Arc;
use unslide_api::feature::{ApiFeature, ListTable, NavigationEntry, NavigationPlace, with_tag};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "costs";

/// The feature.
pub const FEATURE: Feature = Feature::new(NAME, |reader| feature(reader.read_whole()));

/// The list as a table.
const LIST_TABLES: &[ListTable] = &[ListTable {
    path: operations::COSTS_PATH,
    name: "costs",
    has_pages: true,
    columns: "tenant day cpu_micros kafka_bytes object_requests object_bytes stored price",
}];

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let problems = config.api.costs.problems();
    let settings = FeatureSettings { problems, ..FeatureSettings::from_config(&config) };
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config.api.costs)) }
}

fn for_api(prices: Prices) -> ApiFeature {
    let prices = Extension(Arc::new(prices));
    let about = "What tenants used by day, and what it costs by the operator's prices. For operators.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes().layer(prices.clone())),
        pages: pages::routes().layer(prices),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 215,
            name: NAME,
            path: pages::COSTS_PAGE,
            label: "Costs",
            scope: Scope::Operator,
            needs_every_app: true,
            keeps_app: false,
        }],
        tables: LIST_TABLES,
        ..ApiFeature::new(NAME)
    }
}
