//! The settings of the feature.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section of the feature, which is the same for all services.
    pub stored_events: StoredEventsSettings,
}

/// The section `stored_events` of the settings.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct StoredEventsSettings {
    /// Whether each stored revision and each deletion of a report becomes an event on the topic `crash.stored`. The api, builders and
    /// indexers need the same value, because each of them changes reports.
    pub enabled: bool,
    /// Milliseconds between two looks at which tenants have events.
    #[serde(skip)]
    pub look_millis: u64,
}

impl Default for StoredEventsSettings {
    fn default() -> StoredEventsSettings {
        StoredEventsSettings { enabled: false, look_millis: 1_000 }
    }
}
