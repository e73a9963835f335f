//! The context that simple clients share: librdkafka's log lines become tracing events.

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use std::time::Duration;

/// How long a call that asks a broker something may take.
pub(crate) const ASK: Duration = Duration::from_secs(10);

/// How often a partition without a leader is asked for again, and the pause before.
const ELECTION: (u32, Duration) = (200, Duration::from_millis(50));

/// The first offset of a partition and the one after its last. A partition that has no leader, as right after its topic was
/// made, is asked for again for some seconds.
pub(crate) fn watermarks<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    topic: &str,
    partition: i32,
    within: Duration,
) -> KafkaResult<(i64, i64)> {
    let mut tries = 0;
    loop {
        let found = client.fetch_watermarks(topic, partition, within);
        let has_no_leader = found.as_ref().is_err_and(|error| {
            use RDKafkaErrorCode::{LeaderNotAvailable, NotLeaderForPartition};
            matches!(error.rdkafka_error_code(), Some(LeaderNotAvailable | NotLeaderForPartition))
        });
        if !has_no_leader || tries == ELECTION.0 {
            return found;
        }
        tries += 1;
        std::thread::sleep(ELECTION.1);
    }
}

/// Passes log lines on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Logging;

pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, text: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error => {
            tracing::error!(kafka.facility = facility, "Kafka client: {text}");
        }
        RDKafkaLogLevel::Warning => tracing::warn!(kafka.facility = facility, "Kafka client: {text}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::info!(kafka.facility = facility, "Kafka client: {text}");
        }
        RDKafkaLogLevel::Debug => tracing::debug!(kafka.facility = facility, "Kafka client: {text}"),
    }
}

pub(crate) fn log_error(error: &KafkaError, reason: &str) {
    match error.rdkafka_error_code() {
        // Asked for, and reported to the reader as well.
        Some(RDKafkaErrorCode::PartitionEOF) => {}
        // Said of a pattern that no topic matches yet, too.
        Some(RDKafkaErrorCode::UnknownTopicOrPartition) => {
            tracing::warn!(kafka.error = %error, "Kafka client: {reason}");
        }
        // One broker of several is away: the client reconnects by itself.
        Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::Resolve) => {
            tracing::warn!(kafka.error = %error, "a Kafka broker can't be reached: {reason}");
        }
        _ => tracing::error!(kafka.error = %error, "Kafka client: {reason}"),
    }
}

impl ClientContext for Logging {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ConsumerContext for Logging {}
