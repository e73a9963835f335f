//! How many records a batch may have: fewer while the database is slow.

/// The bound of a reader. It is halved where a statement runs out of time, and grows by an eighth with each batch
/// that is stored in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordBound(usize);

impl RecordBound {
    /// No bound: a batch has bounds of its own.
    pub(super) fn unbounded() -> RecordBound {
        RecordBound(usize::MAX)
    }

    /// The most records.
    pub(super) fn records(self) -> usize {
        self.0
    }

    /// A transaction of `records` records ran out of time.
    pub(super) fn shrink(&mut self, records: usize) {
        self.0 = self.0.min(records / 2).max(1);
    }

    /// A batch was stored in time.
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
            assert_eq!(bound.records(), left);
        }
        bound.grow();
        assert_eq!(bound.records(), 2);
        bound.shrink(400);
        assert_eq!(bound.records(), 2);
        let mut bound = RecordBound(80);
        bound.grow();
        assert_eq!(bound.records(), 90);
    }
}
