//! Everything that speaks to Kafka: settings, topics, the idempotent producer, readers of compacted
//! topics, the positioned reader, and the transactional lanes that the symbolizer is made of.

pub mod admin;
pub mod audit;
mod client;
mod error;
pub mod lane;
mod positioned;
mod producer;
mod record;
pub mod scan;
mod settings;
mod spread;
mod tail;
#[cfg(test)]
mod tests;
mod topic_facts;

pub use error::StreamError;
pub use positioned::{BatchLimits, PositionedBatch, PositionedConsumer};
pub use producer::{Delivered, Producer};
pub use record::{Headers, OutRecord, Record, RecordRef};
pub use settings::{ByteBudget, Partitions, Protocol, Security, Settings};
pub use spread::{Place, SpreadConsumer};
pub use tail::{TailEvent, TailProgress, TailReader};
pub use topic_facts::{PartitionFacts, TopicFacts, TopicId, topic_facts, topics_facts};
