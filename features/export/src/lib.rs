//! Export: lists of the API as files, and a stream of live events.
//!
//! `lists` answers each list that the API has as CSV or NDJSON. `live_events` has the statements and the stream.
//! The package `commands` has the command line.

mod lists;
pub mod live_events;

use unslide_api::feature::{ApiFeature, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};

/// The name of the feature.
pub const NAME: &str = "export";

/// The feature. It has no settings.
pub const FEATURE: Feature = Feature { hook: live_events::EVENT_HOOK, ..Feature::new(NAME, |_| feature()) };

/// Makes the feature, which has no settings.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    let api = ApiFeature {
        operations: with_tag(
            "events",
            "What happens to reports, groups and symbols, as it happens.",
            live_events::event_routes(),
        ),
        forms: Some(lists::FORMS),
        ..ApiFeature::new(NAME)
    };
    FEATURE.with_api(api)
}
