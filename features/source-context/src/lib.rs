//! Source context: source lines around the frames of the app, from files that build pipelines send beside dSYMs.
//!
//! The package `formats` reads bundles of source files. `receive` stores them, `lines` finds lines in them, and `store` has the
//! statements. `operations` has the API, `pages` the console. The package `commands` has the tenant's switch, and makes bundles for
//! `unslide upload`.

mod lines;
mod operations;
mod pages;
mod receive;
mod source_map;
mod store;

use unslide_api::feature::sources::SourceFeature;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "source-context";

/// The feature. It has no settings.
pub const FEATURE: Feature = Feature { hook: store::HOOK, ..Feature::new(NAME, |_| feature()) };

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(for_api())
}

/// The functions that other parts of the api call.
const SOURCES: SourceFeature = SourceFeature {
    bundle_magic: unslide_source_context_formats::BUNDLE_MAGIC,
    bundle_bytes: unslide_source_context_formats::MAX_BUNDLE_BYTES,
    is_enabled: store::is_enabled,
    store_bundle: |storage, upload| Box::pin(receive::store_bundle(storage, upload)),
    find_lines: |storage, scope, positions| Box::pin(lines::find_lines(storage, scope, positions)),
    file_page: pages::FILE_PATH,
};

fn for_api() -> ApiFeature {
    let about = "Source files beside symbols: bundles of them, and lines around the frames of a report.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes()),
        pages: pages::routes(),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 136,
            name: NAME,
            path: pages::SOURCES_PATH,
            label: "Sources",
            scope: Scope::TenantAdmin,
            needs_every_app: true,
            keeps_app: false,
        }],
        sources: Some(SOURCES),
        ..ApiFeature::new(NAME)
    }
}
