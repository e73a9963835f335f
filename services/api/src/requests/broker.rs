//! The part of the api's state for operations that send records to Kafka or read them.

use super::kept_scanner::KeptScanner;
use super::refused::KeptValues;
use crate::background::app_slots::AppSlots;
use crate::background::topics_check::TopicsCheck;
use crate::limits::capacity::Capacity;
use crate::metrics::Metrics;
use crate::problem::{Kind, Problem};
use crate::storage::Storage;
use std::sync::Arc;
use unslide_proto::topics::TopicNames;
use unslide_signatures::Signer;
use unslide_stream::{Producer, Settings};

/// The Kafka client, the topics of the service, and the result of their check.
pub struct Broker {
    pub storage: Arc<Storage>,
    pub capacity: Arc<Capacity>,
    pub producer: Producer,
    /// Signs the records for Kafka, if a key is configured.
    pub signer: Option<Signer>,
    pub topics: TopicNames,
    /// Result of the check that the topics are as the service needs them.
    pub topics_check: TopicsCheck,
    /// Kafka settings, for the topics of tenants and single records.
    pub settings: Settings,
    /// The reader of the dead-letter topic that the last request left.
    pub dead_letter_scanner: KeptScanner,
    /// The slots that reports of each app are spread over, and what this process accepted of each app.
    pub app_slots: AppSlots,
    /// Counters of refused elements with a value that is kept.
    pub kept_values: KeptValues,
    pub metrics: Metrics,
}

impl Broker {
    /// Refuses to send while a topic has settings that would lose records.
    ///
    /// # Errors
    /// [`Kind::Unavailable`]; the log and the admin port say what is wrong.
    pub fn check_topics(&self) -> Result<(), Problem> {
        if self.topics_check.is_wrong() { Err(Problem::from_kind(Kind::Unavailable)) } else { Ok(()) }
    }
}
