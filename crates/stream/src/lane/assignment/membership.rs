//! Whether this consumer is a member of its group at this moment.

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, ConsumerGroupMetadata};
use std::ffi::CStr;
use std::time::Duration;
use tokio::time::Instant;

/// How long leaving may take.
const LEAVE_GROUP_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns the id under which the group's coordinator knows this consumer; empty while it knows none. A
/// member that was thrown out and comes again gets another one.
#[expect(unsafe_code, reason = "rdkafka has no safe call for the member id")]
pub(in crate::lane) fn member_id(consumer: &BaseConsumer<impl ConsumerContext>) -> String {
    let native = consumer.client().native_ptr();
    // SAFETY: `native` is alive as long as `consumer`; the returned text is null or a
    // NUL-terminated string that belongs to the caller and is freed by librdkafka's own function.
    unsafe {
        let id = sys::rd_kafka_memberid(native);
        if id.is_null() {
            return String::new();
        }
        let text = CStr::from_ptr(id).to_string_lossy().into_owned();
        sys::rd_kafka_mem_free(native, id.cast());
        text
    }
}

/// Returns true once the group has taken this consumer in.
pub(in crate::lane) fn has_joined(consumer: &BaseConsumer<impl ConsumerContext>) -> bool {
    !member_id(consumer).is_empty()
}

/// Returns true while the partitions that were given to the member `id` may still be this consumer's: it was
/// not thrown out since.
pub(in crate::lane) fn is_still(consumer: &BaseConsumer<impl ConsumerContext>, id: &str) -> bool {
    !id.is_empty() && member_id(consumer) == id && !consumer.assignment_lost()
}

/// Returns the group metadata under which offsets may be committed for partitions that were given to the
/// member `id`; `None` if that membership was lost.
///
/// A member that the coordinator has thrown out forgets its member id at once, joins again on its own, and
/// hears of its lost partitions only at its next poll. Metadata read in between carries neither member nor
/// generation, and a broker accepts offsets under such metadata from anyone; or it carries those of the new
/// membership, in which another member may have the partitions. So the member id is checked after the
/// metadata was read.
pub(in crate::lane) fn current_group_metadata(
    consumer: &BaseConsumer<impl ConsumerContext>,
    id: &str,
) -> Option<ConsumerGroupMetadata> {
    let metadata = consumer.group_metadata()?;
    is_still(consumer, id).then_some(metadata)
}

/// Leaves the group, so that others get the partitions at once and not when the session is over. A
/// member with a fixed name does not do so when its client is closed.
pub(in crate::lane) fn leave_group(consumer: &BaseConsumer<impl ConsumerContext>) {
    consumer.unsubscribe();
    let until = Instant::now() + LEAVE_GROUP_TIMEOUT;
    // The partitions are given up in callbacks, and then the member id goes.
    while has_joined(consumer) && Instant::now() < until {
        drop(consumer.poll(Duration::from_millis(20)));
    }
}
