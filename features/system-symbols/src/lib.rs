//! System symbols: names of an operating system's functions, from the dyld shared caches and libraries that a customer
//! has. Only the names and where they begin are sent and kept.
//!
//! `import` reads the files and sends what the server lacks, `builds` records which images a build has and removes their
//! names, `coverage` says of which builds names are missing, `pages` shows that in the console, and `release` has the
//! version and the build that a folder's name tells.

mod builds;
mod command;
mod coverage;
mod import;
mod pages;
mod release;

pub use command::SYSTEM_SYMBOL_COMMANDS;
pub use coverage::check_coverage;
pub use import::{CacheTotals, measure_cache};

use unslide_api::feature::{ApiFeature, NavigationEntry};
use unslide_feature::Feature;
use unslide_model::Scope;
use unslide_runtime::config::ConfigReader;

/// The name of the feature.
pub const NAME: &str = "system-symbols";

/// Makes the feature without reading any setting.
pub fn read(_: &mut ConfigReader) -> Feature {
    feature()
}

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> Feature {
    let api = ApiFeature {
        operations: coverage::operation::routes().merge(builds::routes()),
        pages: pages::routes(),
        navigation: vec![NavigationEntry {
            name: NAME,
            path: pages::COVERAGE_PAGE,
            label: "System symbols",
            scope: Scope::ReportsRead,
            needs_every_app: false,
            keeps_app: false,
        }],
        ..ApiFeature::new(NAME, "Names of the operating systems' functions, and the builds that lack them.")
    };
    Feature::new(NAME, api)
}
