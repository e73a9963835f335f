//! Everything that speaks to Kafka: settings, topics, the idempotent and the fenced producer, readers of compacted
//! topics, the reader with positions of its own, and the transactional lanes that the symbolizer is made of.

pub mod admin;
pub mod audit;
mod client;
mod error;
mod fenced;
pub mod lane;
mod producer;
mod record;
pub mod scan;
mod settings;
mod signatures;
mod spread;
mod tail;
#[cfg(test)]
mod tests;
mod topic_facts;

pub use error::StreamError;
pub use fenced::{FencedProducer, NotSent};
pub use producer::{Delivered, Producer};
pub use record::{Headers, OutRecord, Record, RecordRef, split_by_size};
pub use settings::{ByteBudget, Partitions, Protocol, Security, Settings};
pub use signatures::{BadSignature, GatewayKey, SignatureSettings, Signatures};
pub use spread::{BatchLimits, SpreadConsumer, TopicPartition};
pub use tail::{TailEvent, TailProgress, TailReader};
pub use topic_facts::{PartitionFacts, TopicFacts, TopicId, topic_facts, topics_facts};
