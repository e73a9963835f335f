//! Scrubbing: rules of a tenant that take personal data out of reports before they are stored.
//!
//! The pure package `rules` has the engine. `rewriting` applies it to the reports that the indexer stores, `job` to those that are
//! stored, and `row_document` to the rows of those without a body. `store` has the statements, `operations` the API, `pages` the page of the rules, and `panels` the counts on the page of a report. `commands`
//! has the subcommand.

mod job;
mod operations;
mod pages;
mod panels;
mod rewriting;
mod row_document;
pub mod store;

use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, with_tag};
use unslide_builder::BuilderFeature;
use unslide_feature::{ConfiguredFeature, Feature, IndexerFeature};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "scrubbing";

/// The feature.
pub const FEATURE: Feature = Feature {
    hook: store::SCRUBBING_HOOK,
    builder: BuilderFeature { jobs: job::SCRUB_JOBS },
    indexer: IndexerFeature { rewriting: Some(rewriting::REWRITING), topics: &[] },
    ..Feature::new(NAME, |_| feature())
};

/// Makes the feature.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(for_api())
}

fn for_api() -> ApiFeature {
    let about = "Scrubbing: rules that take personal data out of reports before they are stored. For a tenant's administrators.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes()),
        pages: pages::routes(),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 132,
            name: NAME,
            path: pages::SCRUBBING_PAGE,
            label: "Scrubbing",
            scope: Scope::TenantAdmin,
            needs_every_app: true,
            keeps_app: false,
        }],
        show_panel: Some(panels::show_panel),
        ..ApiFeature::new(NAME)
    }
}
