//! Verdicts: whether a resolved bug is fixed, and whether a release may go on, by tests that may be read on any day.
//!
//! The package `statistics` beside this one has the tests, pure. `store` reads the counts, `fix` and `release` bring them into the
//! form of the tests and say the verdicts in words, `commonalities` what the devices with a bug share, `regressions` opens resolved groups by their verdicts, `newest_versions` answers rules that watch releases, `hook` is the part in the
//! store, `operations` is the API, `pages` the page of what devices share, and
//! `panels` has the sections of pages. `commands` has `unslide release check` and `unslide release regressions`.

pub mod commonalities;
pub mod fix;
mod hook;
mod newest_versions;
mod operations;
mod pages;
mod panels;
mod regressions;
pub mod release;
pub mod store;

use regressions::RegressionJudge;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::tenant_turns::start_tenant_turns;
use unslide_api::feature::{ApiFeature, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};

/// The name of the feature.
pub const NAME: &str = "verdicts";

/// How often each process of the api looks for groups that wait for a verdict.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The feature.
pub const FEATURE: Feature = Feature { hook: hook::VERDICTS_HOOK, ..Feature::new(NAME, |_| feature()) };

/// Makes the feature for the list of the program.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(ApiFeature {
        operations: with_tag(
            NAME,
            "Verdicts: whether a resolved bug is fixed, and whether a release may go on.",
            operations::routes(),
        ),
        pages: pages::routes(),
        show_panel: Some(panels::show_panel),
        start: Some(Arc::new(|api, host| {
            let judge = RegressionJudge::new(api.symbolication.storage.store.clone());
            Ok(start_tenant_turns(judge, LOOK_INTERVAL, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    })
}
