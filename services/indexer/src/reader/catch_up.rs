//! How far a reader has to read until it has stored all that the logs held when it began.

use super::assignment::Assignment;
use crate::topics::Positions;
use std::collections::{BTreeMap, BTreeSet};
use unslide_stream::TopicPartition;

/// What is left of it.
pub struct CatchUp {
    ends: BTreeMap<TopicPartition, i64>,
    behind: BTreeSet<TopicPartition>,
    /// False where a topic that counts can't be read.
    whole: bool,
}

impl CatchUp {
    /// From where the partitions are stored to up to their ends.
    pub fn new(
        assignment: &Assignment,
        positions: &Positions,
        stored_to: impl Fn(&TopicPartition, i64) -> i64,
        whole: bool,
    ) -> CatchUp {
        let ends: BTreeMap<TopicPartition, i64> = assignment.ends(positions).collect();
        let is_behind =
            |place: &TopicPartition, next| ends.get(place).is_some_and(|end| *end > stored_to(place, next));
        let behind = positions.iter().filter(|(place, at)| is_behind(place, at.next_offset));
        let behind = behind.map(|(place, _)| place.clone()).collect();
        CatchUp { ends, behind, whole }
    }

    /// True where something is left to read.
    pub fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// True where all was stored.
    pub fn is_over(&self) -> bool {
        self.behind.is_empty() && self.whole
    }

    /// Notes how far the reader is; true where that was the last that was left.
    pub fn reach(&mut self, at: impl Fn(&TopicPartition) -> Option<i64>) -> bool {
        let was_behind = self.is_behind();
        self.behind.retain(|place| at(place) < self.ends.get(place).copied());
        was_behind && self.is_over()
    }
}
