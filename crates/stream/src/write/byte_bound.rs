//! How many bytes of records a transaction may have: fewer while the broker is slow.

/// The smallest and the largest step by which the bound grows. In between it is an eighth of the bound, so
/// that one step too many costs little at any speed.
const GROWTH_STEP_BYTES: (usize, usize) = (1 << 10, 64 << 10);

/// The bound of a lane or of a relay. It is halved when a transaction runs out of time, and grows by a step when a
/// transaction that it shortened ends early.
#[derive(Clone, Copy, Debug)]
pub struct ByteBound(usize);

impl ByteBound {
    /// Returns a bound for records that have limits of their own.
    #[must_use]
    pub fn unbounded() -> ByteBound {
        ByteBound(usize::MAX)
    }

    /// Returns the most bytes; one record may have more.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.0
    }

    /// Lowers the bound after a transaction ran out of time. One of a single record cannot be smaller, and a
    /// large record says nothing about the number of small ones that a transaction may have.
    pub fn shrink(&mut self, records: usize, bytes: usize) {
        self.0 = self.0.min(if records > 1 { bytes / 2 } else { bytes });
    }

    /// Raises the bound after a transaction that it shortened ended early.
    pub fn grow(&mut self) {
        self.0 = self.0.saturating_add((self.0 / 8).clamp(GROWTH_STEP_BYTES.0, GROWTH_STEP_BYTES.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_halves_to_one_record_and_grows_by_steps() {
        let mut bound = ByteBound::unbounded();
        bound.shrink(200, 3_000_000);
        assert_eq!(bound.bytes(), 1_500_000);
        bound.grow();
        assert_eq!(bound.bytes(), 1_500_000 + (64 << 10));
        bound.shrink(2, 30_000);
        assert_eq!(bound.bytes(), 15_000);
        // One record that is larger than the bound goes all the same.
        bound.shrink(1, 20_000_000);
        bound.shrink(1, 20_000_000);
        assert_eq!(bound.bytes(), 15_000);
        bound.grow();
        assert_eq!(bound.bytes(), 16_875);
        bound.shrink(1, 100);
        bound.grow();
        assert_eq!(bound.bytes(), 1_124);
    }
}
