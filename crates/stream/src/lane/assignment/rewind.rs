//! Going back to the committed offsets.

use crate::lane::assignment::context::{LaneContext, TopicPartition, list_partitions};
use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use std::time::Duration;
use tokio::time::Instant;

/// How long one question to the group's coordinator may take.
const COORDINATOR_TIMEOUT: Duration = Duration::from_secs(3);

/// Sets every partition that was read from back to its committed offset, and makes everything that
/// was polled or prepared worthless. Committed offsets are asked for in a way that waits for open
/// transactions, so an offset that was committed by a transaction of unknown end is seen.
pub(in crate::lane) fn rewind_to_committed(consumer: &BaseConsumer<LaneContext>) -> KafkaResult<()> {
    let touched: Vec<TopicPartition> = {
        let ownership = consumer.context().ownership.lock();
        ownership.owned.iter().filter(|(_, owned)| owned.touched).map(|(place, _)| place.clone()).collect()
    };
    if !touched.is_empty() {
        let mut list = consumer.committed_offsets(list_partitions(&touched), COORDINATOR_TIMEOUT)?;
        for place in &touched {
            let Some(mut element) = list.find_partition(&place.0, place.1) else { continue };
            element.error()?;
            if !matches!(element.offset(), Offset::Offset(_)) {
                element.set_offset(Offset::Beginning)?;
            }
        }
        let sought = consumer.seek_partitions(std::mem::take(&mut list), COORDINATOR_TIMEOUT)?;
        for element in sought.elements() {
            element.error()?;
        }
    }
    let mut ownership = consumer.context().ownership.lock();
    if !ownership.paused {
        // Partitions that were held back are resumed, and held back again if their record still is not due.
        consumer.resume(&list_partitions(ownership.owned.keys()))?;
    }
    ownership.renew_epochs();
    ownership.forget_marks();
    // Polled records come again. The client's statistics tell later how many of them wait.
    ownership.waiting = ownership.waiting.max(i64::try_from(touched.len()).unwrap_or(i64::MAX));
    ownership.rewound = Some(Instant::now());
    tracing::info!(partitions = touched.len(), "went back to the committed offsets");
    Ok(())
}
