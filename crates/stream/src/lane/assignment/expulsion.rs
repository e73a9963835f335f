//! A lane that its group has refused, and the consumer that it joins with.

use crate::lane::assignment::context::LaneContext;
use crate::lane::{Control, LaneConfig, Observer};
use crate::read::waking::WakingConsumer;
use crate::settings::Settings;
use rdkafka::error::KafkaResult;
use std::sync::Arc;
use tokio::time::Instant;

/// A lane that the group has refused.
pub(in crate::lane) struct Expulsion {
    pub(in crate::lane) begun: Instant,
    pub(in crate::lane) next_check: Instant,
    /// When a member of this lane's name was first seen.
    pub(in crate::lane) name_seen: Option<Instant>,
}

/// Makes the lane's consumer, which has not joined its group yet.
pub(in crate::lane) fn make_consumer(
    settings: &Settings,
    lane: &LaneConfig,
    control: &Control,
    observer: &Arc<dyn Observer>,
) -> KafkaResult<WakingConsumer<LaneContext>> {
    let config = lane.consumer_config(settings, &lane.member_name(settings));
    WakingConsumer::new(&config, LaneContext::new(Arc::clone(observer)), Arc::clone(&control.signal))
}
