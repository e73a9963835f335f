//! Events about stored reports: each stored revision is a small record on the topic `crash.stored`, and so is each deletion, so that
//! tables outside of Unslide follow.
//!
//! `store` has the statements and writes an event in the transaction that changes a report. `publishing` sends what waits, beside the
//! requests of the api, and `record` has the form of a record. Without the operator's setting no event is written.

mod publishing;
pub mod record;
mod settings;
pub mod store;

pub use settings::{Config, StoredEventsSettings};

use publishing::EventPublisher;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::tenant_turns::start_tenant_turns;
use unslide_api::feature::{ApiFeature, OutcomeCounts};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_runtime::MetricFactory;

/// The name of the feature.
pub const NAME: &str = "stored-events";

const OUTCOME_METRIC: &str = "unslide_api_stored_events_total";
const OUTCOME_HELP: &str = "Events about stored reports by outcome: those that Kafka has (sent), and turns of tenants that failed (failed).";
const LAG_METRIC: &str = "unslide_api_stored_events_lag_seconds";
const LAG_HELP: &str = "Age of the oldest event about a stored report that Kafka does not have.";

/// The feature without settings: it writes no events.
pub const FEATURE: Feature =
    Feature { hook: store::SILENT_HOOK, ..Feature::new(NAME, |reader| feature(&reader.read_whole())) };

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: &Config) -> ConfiguredFeature {
    let settings = config.stored_events;
    let hook = if settings.enabled { store::WRITING_HOOK } else { store::SILENT_HOOK };
    ConfiguredFeature {
        feature: Feature { hook, ..FEATURE },
        settings: Some(FeatureSettings::from_config(config)),
        ..FEATURE.with_api(for_api(settings))
    }
}

fn for_api(settings: StoredEventsSettings) -> ApiFeature {
    let outcomes = Arc::new(OutcomeCounts::default());
    ApiFeature {
        start: Some(Arc::new(move |api, host| {
            let waiting = outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP)?;
            let lag = MetricFactory(&host.metrics).register_gauge(LAG_METRIC, LAG_HELP)?;
            if !settings.enabled {
                return Ok(waiting);
            }
            let publisher = EventPublisher::new(api.broker.clone(), outcomes.clone(), lag);
            let look_interval = Duration::from_millis(settings.look_millis);
            Ok(start_tenant_turns(publisher, look_interval, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    }
}
