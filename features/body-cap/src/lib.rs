//! A cap for the bodies of a bug: of a group at most some bodies a day are kept, so that a crash loop does not fill the storage. All
//! reports stay in lists and counts.
//!
//! `store` has the statements, `choosing` the choice among the bodies of a day, `sweep` the work beside the requests, and `operations`
//! the API. The package `commands` has the subcommand. What a report without a body is, and who reads it, is the core's.

pub mod choosing;
mod operations;
pub mod store;
pub mod sweep;

use std::sync::Arc;
use std::time::Duration;
use sweep::BodySweep;
use unslide_api::feature::tenant_turns::start_tenant_turns;
use unslide_api::feature::{ApiFeature, OutcomeCounts, with_tag};
use unslide_feature::{ConfiguredFeature, Feature};

/// The name of the feature.
pub const NAME: &str = "body-cap";

/// The interval between two searches for tenants with bodies to look at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The metric with the outcomes.
const OUTCOME_METRIC: &str = "unslide_api_capped_bodies_total";
const OUTCOME_HELP: &str = "Bodies of reports over the cap of their group and day: dropped.";

/// The feature.
pub const FEATURE: Feature = Feature { hook: store::BODY_CAP_HOOK, ..Feature::new(NAME, |_| feature()) };

/// Makes the feature.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(for_api())
}

fn for_api() -> ApiFeature {
    let about = "The cap for the bodies that are kept of a group and day. For a tenant's administrators.";
    let outcomes = Arc::new(OutcomeCounts::default());
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes()),
        start: Some(Arc::new(move |api, host| {
            // The task that waits for the end of the host ends with it: the sweep is the work.
            drop(outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP)?);
            let sweep = BodySweep::new(api.symbolication.storage.clone(), outcomes.clone());
            Ok(start_tenant_turns(sweep, LOOK_INTERVAL, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    }
}
