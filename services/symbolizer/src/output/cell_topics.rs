//! Topics of other cells, to which records of tenants that have moved are passed on. One that does not exist must not stop the lane:
//! its records become dead letters.

use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;
use unslide_stream::lane::Pause;
use unslide_stream::{Settings, admin};

/// How long a look-up of a topic counts.
const LOOK_UP_LIFETIME: Duration = Duration::from_secs(10);
/// Pause after topics could not be looked up.
const LOOK_UP_BACKOFF: Duration = Duration::from_secs(1);

/// The last look-up of a topic.
#[derive(Clone, Copy)]
struct LookUp {
    at: Instant,
    is_missing: bool,
}

/// The topics of other cells, as they were last seen.
pub struct CellTopics {
    settings: Settings,
    seen: RwLock<BTreeMap<String, LookUp>>,
}

impl CellTopics {
    /// Creates an empty table.
    pub fn new(settings: &Settings) -> CellTopics {
        CellTopics { settings: settings.clone(), seen: RwLock::default() }
    }

    /// Looks up which of these topics exist, unless that was done lately.
    ///
    /// # Errors
    /// Returns [`Pause`] if Kafka cannot list the topics.
    pub async fn look_up(&self, mut topics: BTreeSet<String>) -> Result<(), Pause> {
        let now = Instant::now();
        topics.retain(|topic| {
            self.seen.read().get(topic).is_none_or(|look_up| now - look_up.at >= LOOK_UP_LIFETIME)
        });
        if topics.is_empty() {
            return Ok(());
        }
        let missing = admin::find_missing_topics(&self.settings, topics.clone()).await.map_err(|error| {
            let reason = format!("the topics of other cells cannot be listed: {error}");
            Pause { reason, wait: LOOK_UP_BACKOFF }
        })?;
        for topic in &missing {
            tracing::error!(
                kafka.topic = topic,
                "a topic of the cell to which a tenant moved does not exist: records that no other topic takes become dead letters"
            );
        }
        let look_up = |topic: String| {
            let is_missing = missing.contains(&topic);
            (topic, LookUp { at: now, is_missing })
        };
        self.seen.write().extend(topics.into_iter().map(look_up));
        Ok(())
    }

    /// Returns true if the topic did not exist at the last look-up.
    pub fn is_missing(&self, topic: &str) -> bool {
        self.seen.read().get(topic).is_some_and(|look_up| look_up.is_missing)
    }
}
