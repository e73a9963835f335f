//! Limit for the number of records of a batch, which shrinks while the database is slow.

/// The limit of a reader. It is halved if a statement runs out of time, and grows by an eighth with each
/// batch that is stored in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordBound(usize);

impl RecordBound {
    /// Returns an unlimited bound; a batch has limits of its own.
    pub(super) fn unbounded() -> RecordBound {
        RecordBound(usize::MAX)
    }

    /// Returns the maximum number of records.
    pub(super) fn most_records(self) -> usize {
        self.0
    }

    /// Halves the limit after a transaction of `records` records ran out of time.
    pub(super) fn shrink(&mut self, records: usize) {
        self.0 = self.0.min(records / 2).max(1);
    }

    /// Raises the limit after a batch was stored in time.
    pub(super) fn grow(&mut self) {
        self.0 = self.0.saturating_add((self.0 / 8).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_halves_to_one_record_and_grows_by_eighths() {
        let mut bound = RecordBound::unbounded();
        bound.grow();
        assert_eq!(bound, RecordBound::unbounded());
        for (failed, left) in [(500, 250), (250, 125), (250, 125), (3, 1), (1, 1)] {
            bound.shrink(failed);
            assert_eq!(bound.most_records(), left);
        }
        bound.grow();
        assert_eq!(bound.most_records(), 2);
        bound.shrink(400);
        assert_eq!(bound.most_records(), 2);
        let mut bound = RecordBound(80);
        bound.grow();
        assert_eq!(bound.most_records(), 90);
    }
}
