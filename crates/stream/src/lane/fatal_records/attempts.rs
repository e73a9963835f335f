//! The number of attempts of a partition's first record, kept in the metadata of its committed offset: Kafka
//! counts no deliveries, and a record that kills the process leaves no other trace.
//!
//! Before the first batch of a newly assigned partition is prepared, its committed offset is committed again
//! with `attempt=n+1`. The first good transaction overwrites it. A clean revocation or a pause takes it back,
//! because then the process did not die.

use std::fmt;

/// From this attempt on, a partition's records are processed one a transaction.
pub(in crate::lane) const SINGLE_RECORD_ATTEMPT: u32 = 3;
/// At this attempt the record is dead-letter.
pub(in crate::lane) const GIVE_UP: u32 = 6;

/// The metadata of a committed offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::lane) struct Attempts {
    /// How often the record at the offset was tried without an end.
    pub attempt: u32,
    /// How many further records go one a transaction. Without it, a poisonous record far behind
    /// the offset would kill the process again each time that one record before it was done.
    pub alone: u32,
}

impl Attempts {
    /// Reads what [`fmt::Display`] writes; anything else counts as no attempts.
    pub(in crate::lane) fn parse(metadata: &str) -> Attempts {
        let mut attempts = Attempts::default();
        for part in metadata.split(' ') {
            match part.split_once('=') {
                Some(("attempt", n)) => attempts.attempt = n.parse().unwrap_or(0),
                Some(("alone", n)) => attempts.alone = n.parse().unwrap_or(0),
                _ => {}
            }
        }
        attempts
    }

    /// Adds an attempt; `batch` is how many records a batch may have.
    pub(in crate::lane) fn add_attempt(self, batch: usize) -> Attempts {
        let attempt = self.attempt.saturating_add(1);
        let batch = u32::try_from(batch).unwrap_or(u32::MAX);
        let alone = if attempt >= SINGLE_RECORD_ATTEMPT { self.alone.max(batch) } else { self.alone };
        Attempts { attempt, alone }
    }

    /// Takes an attempt back: it did not end with the process.
    pub(in crate::lane) fn taken_back(self) -> Attempts {
        Attempts { attempt: self.attempt.saturating_sub(1), alone: self.alone }
    }

    /// Returns the attempts after `records` were done.
    pub(in crate::lane) fn after_records(self, records: usize) -> Attempts {
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        Attempts { attempt: 0, alone: self.alone.saturating_sub(records) }
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.attempt, self.alone) {
            (0, 0) => Ok(()),
            (n, 0) => write!(f, "attempt={n}"),
            (n, alone) => write!(f, "attempt={n} alone={alone}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_survive_as_text_and_foreign_metadata_counts_as_none() {
        for attempts in [
            Attempts::default(),
            Attempts { attempt: 2, alone: 0 },
            Attempts { attempt: 0, alone: 7 },
            Attempts { attempt: 4, alone: 500 },
        ] {
            assert_eq!(Attempts::parse(&attempts.to_string()), attempts);
        }
        assert_eq!(Attempts::parse("someone else's words; attempt=x"), Attempts::default());
    }

    #[test]
    fn records_go_alone_until_a_whole_batch_has_passed() {
        let third = Attempts { attempt: 2, alone: 0 }.add_attempt(100);
        assert_eq!(third, Attempts { attempt: 3, alone: 100 });
        let after_one = third.after_records(1);
        assert_eq!(after_one, Attempts { attempt: 0, alone: 99 });
        assert_eq!(after_one.add_attempt(100), Attempts { attempt: 1, alone: 99 });
        assert_eq!(Attempts { attempt: 3, alone: 5 }.taken_back(), Attempts { attempt: 2, alone: 5 });
    }
}
