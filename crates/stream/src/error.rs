//! Errors of Kafka operations.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// An operation on Kafka failed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The client could not be made from the settings.
    #[error("the Kafka client's settings are wrong: {0}")]
    Settings(String),
    /// Kafka refused or did not answer.
    #[error("{what}: {source}")]
    Kafka {
        /// The operation.
        what: String,
        /// Why it failed.
        source: KafkaError,
    },
    /// The brokers refuse the login.
    #[error(
        "Kafka refuses the login: {0}. Check kafka.security: protocol, mechanism, username and password or key"
    )]
    Refused(String),
    /// A topic is not there.
    #[error("the topic {0} does not exist; `unslide migrate --topics` creates the topics")]
    NoTopic(String),
    /// A record is larger than its topic takes.
    #[error("a record of {bytes} bytes exceeds the limit of {topic}")]
    TooLarge {
        /// The topic.
        topic: String,
        /// Key, headers and value together.
        bytes: usize,
    },
    /// The topics are not as they have to be.
    #[error("the topics have wrong settings: {}", .0.join("; "))]
    Topics(Vec<String>),
    /// A transaction stays open, so that it is unknown which records lie behind it.
    #[error(
        "an open transaction holds {topic} partition {partition} back at {offset}; the broker aborts it after its \
         time-out, and one that stays hangs: `kafka-transactions.sh find-hanging`"
    )]
    Unstable {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The first offset that is not stable.
        offset: i64,
    },
    /// Kafka does not answer any more.
    #[error("Kafka has not answered {0} for a minute")]
    Silent(String),
    /// A client's thread ended.
    #[error("the reader of {0} has ended")]
    Ended(String),
}

impl StreamError {
    pub(crate) fn from_kafka(what: impl Into<String>, source: KafkaError) -> StreamError {
        StreamError::Kafka { what: what.into(), source }
    }

    /// Returns true if the same call may succeed later without anyone changing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            StreamError::Kafka { source, .. } => !matches!(
                source.rdkafka_error_code(),
                Some(
                    RDKafkaErrorCode::TopicAuthorizationFailed
                        | RDKafkaErrorCode::ClusterAuthorizationFailed
                        | RDKafkaErrorCode::GroupAuthorizationFailed
                        | RDKafkaErrorCode::SaslAuthenticationFailed
                        | RDKafkaErrorCode::Fatal
                )
            ),
            StreamError::Ended(_) | StreamError::Unstable { .. } | StreamError::Silent(_) => true,
            _ => false,
        }
    }
}
