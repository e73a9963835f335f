//! Facts of a topic at this moment: its identity, its partitions, and the offsets of each.

use crate::client::{BROKER_REQUEST_TIMEOUT, Logging, fetch_watermarks};
use crate::error::StreamError;
use crate::native::Freed;
use crate::settings::Settings;
use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::ffi::CString;
use std::fmt;

/// The id that Kafka gave a topic when it was created: another id means that the topic was deleted and
/// created again, and that offsets of the old one are invalid.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TopicId(pub [u8; 16]);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Offsets of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionFacts {
    /// The partition's number.
    pub partition: i32,
    /// The first offset that the log still holds.
    pub start: i64,
    /// One after the last offset, whether committed or not.
    pub end: i64,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFacts {
    /// Its identity.
    pub id: TopicId,
    /// Its partitions in order.
    pub partitions: Vec<PartitionFacts>,
}

/// Asks Kafka what a topic is.
///
/// # Errors
/// [`StreamError::NoTopic`], or what Kafka said.
pub async fn topic_facts(settings: &Settings, topic: &str) -> Result<TopicFacts, StreamError> {
    let mut all = topics_facts(settings, vec![topic.to_owned()]).await?;
    all.pop().unwrap_or_else(|| Err(StreamError::NoTopic(topic.to_owned())))
}

/// Asks Kafka for the facts of some topics over one connection; the answers are in the same order, each as
/// [`topic_facts`] would give it.
///
/// # Errors
/// [`StreamError::Settings`], or another error if no client can be made.
pub async fn topics_facts(
    settings: &Settings,
    topics: Vec<String>,
) -> Result<Vec<Result<TopicFacts, StreamError>>, StreamError> {
    let config = settings.require_valid()?.base_config();
    let asked = tokio::task::spawn_blocking(move || {
        let client: BaseConsumer<Logging> =
            config.create_with_context(Logging).map_err(|e| StreamError::from_kafka("making a client", e))?;
        Ok(topics.iter().map(|topic| fetch_facts(&client, topic)).collect())
    });
    asked.await.map_err(|_| StreamError::Ended("topics".to_owned()))?
}

fn fetch_facts(client: &BaseConsumer<Logging>, topic: &str) -> Result<TopicFacts, StreamError> {
    let metadata = client
        .fetch_metadata(Some(topic), BROKER_REQUEST_TIMEOUT)
        .map_err(|e| StreamError::from_kafka(format!("asking for {topic}"), e))?;
    let mut numbers: Vec<i32> = metadata
        .topics()
        .iter()
        .filter(|t| t.name() == topic && t.error().is_none())
        .flat_map(|t| t.partitions().iter().map(rdkafka::metadata::MetadataPartition::id))
        .collect();
    if numbers.is_empty() {
        return Err(StreamError::NoTopic(topic.to_owned()));
    }
    numbers.sort_unstable();
    let id = fetch_topic_id(client, topic)?;
    let partitions = numbers
        .into_iter()
        .map(|partition| {
            let (start, end) = fetch_watermarks(client, topic, partition, BROKER_REQUEST_TIMEOUT)
                .map_err(|e| StreamError::from_kafka(format!("asking what {topic}/{partition} holds"), e))?;
            Ok(PartitionFacts { partition, start, end })
        })
        .collect::<Result<_, StreamError>>()?;
    Ok(TopicFacts { id, partitions })
}

/// Asks for a topic's id. rdkafka does not wrap `DescribeTopics`, the one call that returns it.
#[expect(unsafe_code, reason = "rdkafka has no safe call that tells a topic's id")]
pub(crate) fn fetch_topic_id(client: &BaseConsumer<Logging>, topic: &str) -> Result<TopicId, StreamError> {
    let failed = |code: RDKafkaErrorCode| {
        if code == RDKafkaErrorCode::UnknownTopicOrPartition {
            StreamError::NoTopic(topic.to_owned())
        } else {
            StreamError::from_kafka(format!("asking for the id of {topic}"), KafkaError::AdminOp(code))
        }
    };
    let name = CString::new(topic).map_err(|_| StreamError::NoTopic(topic.to_owned()))?;
    let native = client.client().native_ptr();
    let millis = i32::try_from(BROKER_REQUEST_TIMEOUT.as_millis()).unwrap_or(10_000);
    // SAFETY: `native` lives as long as `client`, which outlives this function; each object made
    // here is freed once, by its guard, after its last use; `event` is alive while its result is read.
    unsafe {
        let mut names = [name.as_ptr()];
        let topics = Freed(
            sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len()),
            sys::rd_kafka_TopicCollection_destroy,
        );
        let queue = Freed(sys::rd_kafka_queue_new(native), sys::rd_kafka_queue_destroy);
        let options = Freed(
            sys::rd_kafka_AdminOptions_new(
                native,
                sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            ),
            sys::rd_kafka_AdminOptions_destroy,
        );
        sys::rd_kafka_AdminOptions_set_request_timeout(options.0, millis, std::ptr::null_mut(), 0);
        sys::rd_kafka_DescribeTopics(native, topics.0, options.0, queue.0);
        let event = Freed(sys::rd_kafka_queue_poll(queue.0, millis + 1_000), sys::rd_kafka_event_destroy);
        if event.0.is_null() {
            return Err(failed(RDKafkaErrorCode::OperationTimedOut));
        }
        described_id(event.0).map_err(failed)
    }
}

/// Reads the topic's id from the answer to `DescribeTopics`.
///
/// # Safety
/// `event` is alive. Pointers into it are read while it is, and each is checked for null first.
#[expect(unsafe_code, reason = "rdkafka has no safe call that tells a topic's id")]
unsafe fn described_id(event: *mut sys::rd_kafka_event_t) -> Result<TopicId, RDKafkaErrorCode> {
    // SAFETY: as above.
    unsafe {
        let code: RDKafkaErrorCode = sys::rd_kafka_event_error(event).into();
        if code != RDKafkaErrorCode::NoError {
            return Err(code);
        }
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return Err(RDKafkaErrorCode::Fail);
        }
        let mut count = 0;
        let described = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if count != 1 || described.is_null() {
            return Err(RDKafkaErrorCode::Fail);
        }
        let description = *described;
        let error = sys::rd_kafka_TopicDescription_error(description);
        if !error.is_null() {
            let code: RDKafkaErrorCode = sys::rd_kafka_error_code(error).into();
            if code != RDKafkaErrorCode::NoError {
                return Err(code);
            }
        }
        let uuid = sys::rd_kafka_TopicDescription_topic_id(description);
        if uuid.is_null() {
            return Err(RDKafkaErrorCode::Fail);
        }
        let high = sys::rd_kafka_Uuid_most_significant_bits(uuid).to_be_bytes();
        let low = sys::rd_kafka_Uuid_least_significant_bits(uuid).to_be_bytes();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high);
        id[8..].copy_from_slice(&low);
        Ok(TopicId(id))
    }
}
