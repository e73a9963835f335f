//! Whether this consumer is a member of its group at this moment.

use super::context::LaneContext;
use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use std::time::Duration;
use tokio::time::Instant;

/// How long leaving may take.
const LEAVE: Duration = Duration::from_secs(3);

/// True while the group's coordinator knows this consumer under a member id.
#[expect(unsafe_code, reason = "rdkafka has no safe call for the member id")]
fn is_member(consumer: &BaseConsumer<LaneContext>) -> bool {
    let native = consumer.client().native_ptr();
    // SAFETY: `native` is alive as long as `consumer`; the returned text is null or a
    // NUL-terminated string that belongs to the caller and is freed by librdkafka's own function.
    unsafe {
        let id = sys::rd_kafka_memberid(native);
        if id.is_null() {
            return false;
        }
        let known = *id != 0;
        sys::rd_kafka_mem_free(native, id.cast());
        known
    }
}

/// True once the group has taken this consumer in.
pub(super) fn joined(consumer: &BaseConsumer<LaneContext>) -> bool {
    is_member(consumer)
}

/// The group metadata under which offsets may be committed; `None` where the membership was lost.
///
/// A member that the coordinator has thrown out forgets its member id at once and hears of its lost
/// partitions only at its next poll. Metadata read in between carries neither member nor
/// generation, and a broker accepts offsets under such metadata from anyone. So the member id is
/// looked at after the metadata was read: it can't come back before the loss was polled for.
pub(super) fn metadata(consumer: &BaseConsumer<LaneContext>) -> Option<ConsumerGroupMetadata> {
    let metadata = consumer.group_metadata()?;
    (is_member(consumer) && !consumer.assignment_lost()).then_some(metadata)
}

/// Leaves the group, so that others get the partitions at once and not when the session is over. A
/// member with a fixed name does not do so when its client is closed.
pub(super) fn leave(consumer: &BaseConsumer<LaneContext>) {
    consumer.unsubscribe();
    let until = Instant::now() + LEAVE;
    // The partitions are given up in callbacks, and then the member id goes.
    while is_member(consumer) && Instant::now() < until {
        drop(consumer.poll(Duration::from_millis(20)));
    }
}
