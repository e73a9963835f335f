//! Tracks how far a reader has to read until it has stored all records that the logs held when it started.

use super::assignment::Assignment;
use crate::topics::Positions;
use std::collections::{BTreeMap, BTreeSet};
use unslide_stream::TopicPartition;

/// The partitions that are not stored up to their ends at the start.
pub struct CatchUp {
    ends: BTreeMap<TopicPartition, i64>,
    behind: BTreeSet<TopicPartition>,
    /// False if the shared topic cannot be read.
    whole: bool,
}

impl CatchUp {
    /// Compares the positions up to which the partitions are stored with their ends.
    pub fn new(
        assignment: &Assignment,
        positions: &Positions,
        stored_to: impl Fn(&TopicPartition, i64) -> i64,
        whole: bool,
    ) -> CatchUp {
        let ends: BTreeMap<TopicPartition, i64> = assignment.log_ends(positions).collect();
        let is_behind =
            |place: &TopicPartition, next| ends.get(place).is_some_and(|end| *end > stored_to(place, next));
        let behind = positions.iter().filter(|(place, at)| is_behind(place, at.next_offset));
        let behind = behind.map(|(place, _)| place.clone()).collect();
        CatchUp { ends, behind, whole }
    }

    /// Returns true if some partition is still behind.
    pub fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Returns true if all records were stored.
    pub fn is_over(&self) -> bool {
        self.behind.is_empty() && self.whole
    }

    /// Updates how far the reader is. Returns true if this ends the catch-up.
    pub fn update_progress(&mut self, at: impl Fn(&TopicPartition) -> Option<i64>) -> bool {
        let was_behind = self.is_behind();
        self.behind.retain(|place| at(place) < self.ends.get(place).copied());
        was_behind && self.is_over()
    }
}
