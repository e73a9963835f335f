//! Export: lists of the API as files, and a stream of live events.
//!
//! `lists` answers each list that the API has as CSV or NDJSON. `live_events` has the statements and the stream.
//! The package `commands` beside this one has the command line.

mod lists;
pub mod live_events;

use unslide_api::feature::ApiFeature;
use unslide_builder::{BuilderFeature, Clearing};
use unslide_feature::Feature;
use unslide_runtime::config::ConfigReader;
use unslide_store::Store;

/// The name of the feature.
pub const NAME: &str = "export";

/// Makes the feature without reading any setting.
pub fn read(_: &mut ConfigReader) -> Feature {
    feature()
}

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> Feature {
    let api = ApiFeature {
        operations: live_events::event_routes(),
        tag: ("events", "What happens to reports, groups and symbols, as it happens."),
        forms: Some(lists::FORMS),
        ..ApiFeature::new(NAME, "")
    };
    Feature {
        hook: live_events::EVENT_HOOK,
        builder: BuilderFeature { name: NAME, clear: Some(clear_events), jobs: &[] },
        ..Feature::new(NAME, api)
    }
}

fn clear_events(store: &Store) -> Clearing<'_> {
    Box::pin(live_events::purge_events(store))
}
