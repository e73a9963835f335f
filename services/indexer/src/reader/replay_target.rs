//! Offsets that the other indexers have to reach before a replay is over. Requests for deferred reports need
//! this, because any partition may hold a later revision.

use unslide_store::positions::PartitionPosition;
use unslide_stream::PartitionFacts;

/// End of a partition that another indexer reads, as of the start.
#[derive(Clone, Debug)]
pub struct ReplayTarget {
    pub topic: String,
    pub topic_id: String,
    /// The partition and its offsets at the start.
    pub held: PartitionFacts,
    /// True for a tenant's own topic: if its position cannot be right, the replay does not wait for it.
    pub alone: bool,
}

impl ReplayTarget {
    /// Returns true if the partition was read to its target.
    pub fn is_reached(&self, positions: &[PartitionPosition]) -> bool {
        let ours = |p: &&PartitionPosition| p.topic == self.topic && p.partition == self.held.partition;
        let Some(position) = positions.iter().find(ours) else { return false };
        let wrong = position.topic_id != self.topic_id || position.next_offset < self.held.start;
        if wrong { self.alone } else { position.next_offset >= self.held.end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_of_somebody_else_is_waited_for_up_to_its_end() {
        let goal = |alone| ReplayTarget {
            topic: "out".into(),
            topic_id: "a".into(),
            held: PartitionFacts { partition: 1, start: 10, end: 20 },
            alone,
        };
        let at = |topic_id: &str, partition, next_offset| PartitionPosition {
            topic: "out".into(),
            partition,
            topic_id: topic_id.into(),
            next_offset,
        };
        for (position, shared, alone) in [
            (at("a", 1, 20), true, true),
            (at("a", 1, 19), false, false),
            (at("a", 0, 20), false, false),
            // A position that cannot be right is its topic's trouble.
            (at("a", 1, 9), false, true),
            (at("b", 1, 20), false, true),
        ] {
            let positions = [at("a", 2, 99), position.clone()];
            let reached = [goal(false), goal(true)].map(|goal| goal.is_reached(&positions));
            assert_eq!(reached, [shared, alone], "{position:?}");
        }
        assert!(!goal(true).is_reached(&[]), "nobody has begun with it");
    }
}
