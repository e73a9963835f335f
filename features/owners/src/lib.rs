//! Owners of code: the owner of a group, by the CODEOWNERS file of its app and the source file of its cause.
//!
//! `store` has the statements, `looks` the work beside the requests, `operations` the API, `pages` the page of owners, and
//! `panels` the owner on the page of a group. The package `formats` reads the files, and `commands` has the subcommand.

mod looks;
mod operations;
mod pages;
mod panels;
pub mod store;

use looks::{LOOK_INTERVAL, OwnerSearch};
use std::sync::Arc;
use unslide_api::feature::tenant_turns::start_tenant_turns;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, OutcomeCounts, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "owners";

/// The metric with the outcomes.
const OUTCOME_METRIC: &str = "unslide_api_owner_looks_total";
const OUTCOME_HELP: &str = "Looks for the owners of groups by outcome: owned, cleared, unmatched, dependency, generated, unmapped, no_source, no_file, no_report, old (something has changed since), failed (repeated later), given_up.";

/// The feature.
pub const FEATURE: Feature = Feature { hook: store::OWNERS_HOOK, ..Feature::new(NAME, |_| feature()) };

/// Makes the feature.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(for_api())
}

fn for_api() -> ApiFeature {
    let about = "Owners of code: CODEOWNERS files of apps, and the owners of groups.";
    let outcomes = Arc::new(OutcomeCounts::default());
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes()),
        pages: pages::routes(),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 35,
            name: NAME,
            path: pages::OWNERS_PAGE,
            label: "Owners",
            scope: Scope::ReportsRead,
            needs_every_app: false,
            keeps_app: true,
        }],
        show_panel: Some(panels::show_panel),
        start: Some(Arc::new(move |api, host| {
            // The task that waits for the end of the host ends with it: the search is the work.
            drop(outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP)?);
            let search = OwnerSearch::new(&api.symbolication, &outcomes);
            Ok(start_tenant_turns(search, LOOK_INTERVAL, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    }
}
