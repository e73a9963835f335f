//! Which topics exist, as they were last looked up: for topics that this process writes to and that others make.

use super::admin::find_missing_topics;
use crate::{Settings, StreamError};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// How long a look-up of a topic counts.
const LOOK_UP_LIFETIME: Duration = Duration::from_secs(10);

/// The last look-up of a topic.
#[derive(Clone, Copy)]
struct LookUp {
    at: Instant,
    is_missing: bool,
}

/// The topics that were looked up.
pub struct TopicLookUps {
    settings: Settings,
    seen: RwLock<BTreeMap<String, LookUp>>,
}

impl TopicLookUps {
    /// Creates an empty table.
    #[must_use]
    pub fn new(settings: &Settings) -> TopicLookUps {
        TopicLookUps { settings: settings.clone(), seen: RwLock::default() }
    }

    /// Looks up which of these topics exist, except those that were looked up in the last ten seconds. Returns those that were found
    /// to be missing just now.
    ///
    /// # Errors
    /// Kafka cannot list the topics.
    pub async fn look_up(&self, mut topics: BTreeSet<String>) -> Result<BTreeSet<String>, StreamError> {
        let now = Instant::now();
        topics.retain(|topic| {
            self.seen.read().get(topic).is_none_or(|look_up| now - look_up.at >= LOOK_UP_LIFETIME)
        });
        if topics.is_empty() {
            return Ok(BTreeSet::new());
        }
        let missing = find_missing_topics(&self.settings, topics.clone()).await?;
        let look_up = |topic: String| {
            let is_missing = missing.contains(&topic);
            (topic, LookUp { at: now, is_missing })
        };
        self.seen.write().extend(topics.into_iter().map(look_up));
        Ok(missing)
    }

    /// Returns true if the topic did not exist at the last look-up.
    #[must_use]
    pub fn is_missing(&self, topic: &str) -> bool {
        self.seen.read().get(topic).is_some_and(|look_up| look_up.is_missing)
    }
}
