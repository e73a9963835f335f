//! The Kafka client of Unslide: settings, topics, the idempotent and the fenced producer, readers of
//! compacted topics, the reader with positions of its own, and the transactional lanes of the symbolizer.

#![warn(missing_docs)]

pub mod access;
mod client;
mod error;
pub mod lane;
mod native;
mod read;
mod record;
mod settings;
mod signal;
mod signatures;
#[cfg(test)]
mod tests;
mod topics;
mod write;

pub use error::StreamError;
pub use read::group_lag::{group_lag, read_group_offsets};
pub use read::scan;
pub use read::spread::{BatchLimits, SpreadConsumer, TopicPartition};
pub use read::tail::{TailEvent, TailProgress, TailReader};
pub use record::{Headers, OutRecord, Record, RecordRef, split_by_size};
pub use settings::{ByteBudget, Partitions, Protocol, Security, Settings};
pub use signatures::{BadSignature, GatewayKey, SignatureSettings, Signatures};
pub use topics::admin;
pub use topics::look_ups::TopicLookUps;
pub use topics::partitions::{PartitionCount, add_partitions, count_workers};
pub use topics::topic_facts::{PartitionFacts, TopicFacts, TopicId, topic_facts, topics_facts};
pub use write::byte_bound::ByteBound;
pub use write::fenced::{FencedProducer, NotSent};
pub use write::polled::Delivered;
pub use write::producer::Producer;
