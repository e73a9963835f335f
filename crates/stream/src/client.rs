//! The context that simple clients share: librdkafka's log lines become tracing events.

use crate::error::StreamError;
use crate::native::take_errors;
use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use std::time::Duration;
use tokio::time::Instant;

/// How long a call that asks a broker something may take.
pub(crate) const BROKER_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client waits before it looks whether its login was refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The least time between two lines of the process that say that all brokers are down. Each client notices it several times a
/// second.
const BROKERS_DOWN_LOG_INTERVAL: Duration = Duration::from_secs(10);
static BROKERS_DOWN: LogLimit = LogLimit { passed: Mutex::new(None) };

/// How often a partition without a leader is asked for again, and the pause before.
const LEADER_ELECTION_RETRIES: (u32, Duration) = (200, Duration::from_millis(50));

/// Returns the first offset of a partition and the one after its last. If the partition has no leader, as
/// right after its topic was made, it tries again for some seconds.
pub(crate) fn fetch_watermarks<C: ConsumerContext>(
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
        if !has_no_leader || tries == LEADER_ELECTION_RETRIES.0 {
            return found;
        }
        tries += 1;
        std::thread::sleep(LEADER_ELECTION_RETRIES.1);
    }
}

/// Lists the topics of the cluster, for a client that is not polled otherwise. An error says why the
/// connection failed.
pub(crate) fn list_topics<C: ClientContext>(client: &Client<C>) -> Result<Metadata, StreamError> {
    let mut met = Vec::new();
    // A refused login is known after the first of the two requests.
    let mut listed = client.fetch_metadata(None, REFUSAL_TIMEOUT);
    if listed.is_err() {
        met.extend(take_errors(client));
        if let Some(refused) = find_refusal(&met) {
            return Err(refused);
        }
        listed = client.fetch_metadata(None, BROKER_REQUEST_TIMEOUT.saturating_sub(REFUSAL_TIMEOUT));
    }
    listed.map_err(|error| {
        met.extend(take_errors(client));
        find_refusal(&met).unwrap_or_else(|| match met.last() {
            Some((_, reason)) => {
                StreamError::from_kafka(format!("listing the topics ({})", strip_duration(reason)), error)
            }
            None => StreamError::from_kafka("listing the topics", error),
        })
    })
}

/// Returns the first of a client's errors that is a refusal of its login.
fn find_refusal(met: &[(RDKafkaErrorCode, String)]) -> Option<StreamError> {
    let refused = met.iter().find(|(code, _)| {
        matches!(code, RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed)
    });
    refused.map(|(_, reason)| StreamError::Refused(strip_duration(reason).to_owned()))
}

/// Removes the duration from the text, which differs each time.
fn strip_duration(reason: &str) -> &str {
    reason.split_once(" (after ").map_or(reason, |(cause, _)| cause)
}

/// Lets one line through in an interval.
struct LogLimit {
    passed: Mutex<Option<Instant>>,
}

impl LogLimit {
    fn try_pass(&self, now: Instant, interval: Duration) -> bool {
        let mut passed = self.passed.lock();
        let passes = passed.is_none_or(|at| now.saturating_duration_since(at) >= interval);
        if passes {
            *passed = Some(now);
        }
        passes
    }
}

/// Returns true if a read failed because a connection is lost. The client logs that itself.
pub(crate) fn is_lost_connection(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, Resolve};
    matches!(error.rdkafka_error_code(), Some(AllBrokersDown | BrokerTransportFailure | Resolve))
}

/// Passes log lines on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Logging;

pub(crate) fn log_client_line(level: RDKafkaLogLevel, facility: &str, text: &str) {
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
        // One broker of several is away: the client reconnects on its own.
        Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::Resolve) => {
            tracing::warn!(kafka.error = %error, "a Kafka broker cannot be reached: {reason}");
        }
        Some(RDKafkaErrorCode::AllBrokersDown) => {
            if BROKERS_DOWN.try_pass(Instant::now(), BROKERS_DOWN_LOG_INTERVAL) {
                tracing::error!(kafka.error = %error, "no Kafka broker can be reached: {reason}");
            }
        }
        _ => tracing::error!(kafka.error = %error, "Kafka client: {reason}"),
    }
}

impl ClientContext for Logging {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log_client_line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ConsumerContext for Logging {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_of_all_brokers_is_one_line_in_an_interval() {
        let (limit, now) = (LogLimit { passed: Mutex::new(None) }, Instant::now());
        let passes = [0, 1, 9, 10, 11, 25]
            .map(|seconds| limit.try_pass(now + Duration::from_secs(seconds), BROKERS_DOWN_LOG_INTERVAL));
        assert_eq!(passes, [true, false, false, true, false, true]);
    }

    #[test]
    fn reads_that_fail_by_a_lost_connection_are_logged_by_the_client() {
        use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, TopicAuthorizationFailed};
        let is_lost = [AllBrokersDown, BrokerTransportFailure, TopicAuthorizationFailed]
            .map(|code| is_lost_connection(&KafkaError::MessageConsumption(code)));
        assert_eq!(is_lost, [true, true, false]);
    }
}
